// Sharing is transitive: a with b, c with d, and a copy from b to c make one task of all four.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void pair(int *x, int *y) {}

// CHECK: task 1 static
// CHECK: op launch pair(int*, int*) [1,2]
// CHECK: op launch pair(int*, int*) [3,4]
// CHECK: op cudaMemcpy [2,3]
// CHECK: peak: 4096
// CHECK-NOT: task
void merged() {
  int *a, *b, *c, *d;
  cudaMalloc(&a, 1024);
  cudaMalloc(&b, 1024);
  cudaMalloc(&c, 1024);
  cudaMalloc(&d, 1024);
  pair<<<1, 1>>>(a, b);
  pair<<<1, 1>>>(c, d);
  cudaMemcpy(c, b, 1024, cudaMemcpyDeviceToDevice);
  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  cudaFree(d);
}
