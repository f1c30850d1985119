// A task wholly inside a loop begins and ends in each iteration: also where the loop never ends, and
// on the way out of the middle.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}
bool more();

// CHECK-LABEL: define {{.*}} @_Z4eachPKm
// CHECK: while.body:
// CHECK: mgb_cudaMalloc
// CHECK: call i64 @mgb_task_begin
// CHECK: @mgb_cudaFree
// CHECK-NEXT: load
// CHECK-NEXT: call void @mgb_task_end
// CHECK-NEXT: store i64 0
// CHECK: br label %while.cond
// CHECK: ret void
void each(const size_t *sizes) {
  while (more()) {
    int *x;
    cudaMalloc(&x, *sizes++);
    work<<<1, 1>>>(x);
    cudaFree(x);
  }
}

// CHECK-LABEL: define {{.*}} @_Z5serveiPi
// CHECK: call i64 @mgb_task_begin
// CHECK: @mgb_cudaFree
// CHECK-NEXT: load
// CHECK-NEXT: call void @mgb_task_end
void serve(int n, int *out) {
  for (;;) {
    int *x;
    cudaMalloc(&x, n);
    work<<<1, 1>>>(x);
    cudaMemcpy(out, x, n, cudaMemcpyDeviceToHost);
    cudaFree(x);
  }
}

// REPORT: task 1 static in each(unsigned long const*)
// REPORT: peak: *sizes
// REPORT: task 2 static in serve(int, int*)
// REPORT: peak: n
