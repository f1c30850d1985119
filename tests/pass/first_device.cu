// A file in which no other device than the first is ever chosen is on one device.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

extern "C" cudaError_t cudaSetDevice(int device);

__global__ void work(int *x) {}

// REPORT: task 1 static in solve(unsigned long)
void solve(size_t n) {
  int *x;
  cudaMalloc(&x, n);
  cudaSetDevice(0);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
