// With destructors in scope every call is an invoke. The guard's destructor is inlined, and its free is an op
// of the task; the task ends on the normal path and where the exception leaves.
// RUN: %ir-O0 -fexceptions -fcxx-exceptions %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 -fexceptions -fcxx-exceptions %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void fill(int *out) {}

struct Freed {
  void *memory;
  ~Freed() { cudaFree(memory); }
};
void half_way();

// CHECK-LABEL: define {{.*}} @_Z7unwindsmPi
// CHECK: call {{.*}}@mgb_task_use
// CHECK-NEXT: call {{.*}}@mgb_cudaMalloc
// CHECK: call i64 @mgb_task_begin
// CHECK: invoke {{.*}}@mgb___cudaPushCallConfiguration
// CHECK: call void @mgb_task_use
// CHECK-NEXT: invoke {{.*}}__device_stub__fill
// CHECK: landingpad
// CHECK: call void @mgb_task_use
// CHECK-NEXT: {{call|invoke}} {{.*}}@mgb_cudaFree
// CHECK: call void @mgb_task_use
// CHECK-NEXT: invoke {{.*}}@mgb_cudaMemcpy
// CHECK: call void @mgb_task_use
// CHECK-NEXT: {{call|invoke}} {{.*}}@mgb_cudaFree
// CHECK-DAG: call void @mgb_task_end
// CHECK-DAG: ret void
// CHECK-DAG: call void @mgb_task_end
// CHECK-DAG: resume

// REPORT: task 1 static
// REPORT-COUNT-2: op cudaFree
// REPORT: peak: 4 * n
// REPORT-COUNT-2: end
void unwinds(size_t n, int *out) {
  int *x;
  cudaMalloc(&x, n * 4);
  Freed guard{x};
  fill<<<1, 1>>>(x);
  half_way();
  cudaMemcpy(out, x, n * 4, cudaMemcpyDeviceToHost);
}

// Unwinding out of main ends the process: no end there.
// REPORT: task 2 static in main
// REPORT-COUNT-1: end
// REPORT-NOT: end
int main() {
  int *x;
  cudaMalloc(&x, 64);
  Freed guard{x};
  fill<<<1, 1>>>(x);
  half_way();
}
