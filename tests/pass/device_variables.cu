// Kernels of a file with device variables may talk to each other through them, although they share
// no argument: they stay on one GPU.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__constant__ float factor;
__global__ void scale(float *x) { *x *= factor; }

// CHECK-NOT: @mgb_task_
// CHECK: @mgb_cudaMemcpyToSymbol

// REPORT: task 1 lazy in scaled(float)
// REPORT: op cudaMemcpyToSymbol
// REPORT: op launch scale(float*) [1]
// REPORT: why anchored: cudaMemcpyToSymbol accesses a device variable
// REPORT: why anchored: scale(float*) may share the device variables of this file
void scaled(float by) {
  float *x;
  cudaMalloc(&x, 64);
  cudaMemcpyToSymbol(&factor, &by, 4);
  scale<<<1, 1>>>(x);
  cudaFree(x);
}
