// Kernels that share nothing are two tasks, each with its own begin and end, interleaved as they are.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void one(float *x) {}
__global__ void other(double *y) {}

// CHECK-LABEL: define {{.*}} @_Z3twomm
// CHECK: store i64 0, ptr %[[H1:mgb.handle[0-9]*]]
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.1
// CHECK: device_stub__one
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.2
// CHECK: device_stub__other
// CHECK: call void @mgb_task_use(ptr @mgb.site.1
// CHECK-NEXT: @mgb_cudaFree
// CHECK-NEXT: load
// CHECK-NEXT: call void @mgb_task_end
// CHECK: call void @mgb_task_use(ptr @mgb.site.2
// CHECK-NEXT: @mgb_cudaFree
// CHECK-NEXT: load
// CHECK-NEXT: call void @mgb_task_end

// REPORT: task 1 static in two(unsigned long, unsigned long)
// REPORT-NEXT: object 1 x: 4 * n
// REPORT: op launch one(float*) [1]
// REPORT: peak: 4 * n
// REPORT: task 2 static
// REPORT-NEXT: object 1 y: 8 * m
// REPORT: op launch other(double*) [1]
// REPORT: peak: 8 * m
void two(size_t n, size_t m) {
  float *x;
  double *y;
  cudaMalloc(&x, n * sizeof(float));
  one<<<n, 64>>>(x);
  cudaMalloc(&y, m * sizeof(double));
  other<<<m, 64>>>(y);
  cudaFree(x);
  cudaFree(y);
}
