// Exits from the middle of a task: the end of the process is not one, an early return is.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
#include "cuda.h"

__global__ void work(int *x) {}

// CHECK-LABEL: define {{.*}} @_Z7checkedi
// CHECK: call i64 @mgb_task_begin
// CHECK-NOT: @mgb_task_end
// CHECK: call void @exit
// CHECK-NEXT: unreachable
// CHECK: @mgb_cudaFree
// CHECK: call void @mgb_task_end
void checked(int n) {
  int *x;
  if (cudaMalloc(&x, n) != cudaSuccess)
    exit(1);
  work<<<1, 1>>>(x);
  if (cudaGetLastError() != cudaSuccess)
    exit(2);
  cudaFree(x);
}

// An early return that frees, and one that forgets to: both leave the task.
// CHECK-LABEL: define {{.*}} @_Z5earlyi
// CHECK: call i64 @mgb_task_begin
// CHECK-COUNT-2: call void @mgb_task_end
// CHECK: ret
// REPORT: task 2 static in early(int)
// REPORT: begin :[[@LINE+6]]
int early(int n) {
  int *x;
  if (cudaMalloc(&x, n) != cudaSuccess)
    return 1;
  int *host = nullptr;
  work<<<1, 1>>>(x);
  if (cudaGetLastError() != cudaSuccess) {
    cudaFree(x);
    return 2;
  }
  if (n == 3)
    return 3;
  cudaMemcpy(host, x, 4, cudaMemcpyDeviceToHost);
  cudaFree(x);
  return 0;
}

// After the launch the program only waits and never returns.
// CHECK-LABEL: define {{.*}} @_Z7endlessi
// CHECK: call i64 @mgb_task_begin
// CHECK-NOT: @mgb_task_end
// CHECK: unreachable
// CHECK-LABEL: define
void endless(int n) {
  int *x;
  cudaMalloc(&x, n);
  work<<<1, 1>>>(x);
  abort();
}
void last() {}
