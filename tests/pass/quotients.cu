// Formulas mean what they say: a quotient rounds, so it keeps its parentheses in a product; and rounding up
// to a multiple is written with division, not with a mask.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x) {}

// CHECK: task 1 static in totals
// CHECK: peak: 4 * n + 4 * ((n + 255) / 256)
void totals(size_t n) {
  int *x, *y;
  cudaMalloc(&x, n * sizeof(int));
  cudaMalloc(&y, (n + 255) / 256 * sizeof(int));
  work<<<1, 32>>>(x);
  work<<<1, 32>>>(y);
  cudaMemcpy(x, y, 4, cudaMemcpyDeviceToDevice);
  cudaFree(x);
  cudaFree(y);
}

// CHECK: task 2 static in rows
// CHECK: peak: ((w + 511) / 512 * 512) * h
void rows(size_t w, size_t h) {
  int *x;
  size_t pitch;
  cudaMallocPitch((void **)&x, &pitch, w, h);
  work<<<1, 32>>>(x);
  cudaFree(x);
}
