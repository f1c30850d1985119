// What an allocation is known to run under counts as a condition of its size; what is not known at the begin is
// taken to hold. A size that failed its allocation is not there beside the one that is tried next.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x, int *y) {}
bool ask();

// CHECK: static in optional
// CHECK: peak: 64 + (mode > 1 ? n : 0)
void optional(int mode, size_t n) {
  int *x, *y = nullptr;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x, x);
  if (mode > 1) {
    cudaMalloc(&y, n);
    work<<<1, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}
// CHECK: static in both(
// CHECK: peak: 64 + ({{[ab]}} > 0 ? ({{[ab]}} > 0 ? n : 0) : 0)
void both(int a, int b, size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x, x);
  if (a > 0 && b > 0) {
    cudaMalloc(&y, n);
    work<<<1, 1>>>(x, y);
  }
}
// CHECK: static in unknown
// CHECK: peak: 64 + n
void unknown(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x, x);
  if (ask()) {
    cudaMalloc(&y, n);
    work<<<1, 1>>>(x, y);
  }
}
// The process ends where it does not hold.
// CHECK: static in checked
// CHECK: peak: 64 + n
void checked(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x, x);
  if (n == 0)
    exit(1);
  cudaMalloc(&y, n);
  work<<<1, 1>>>(x, y);
}
// CHECK: static in falls_back
// CHECK: peak: max(large, cudaMalloc() != 0 ? small : 0)
void falls_back(size_t large, size_t small) {
  int *x;
  if (cudaMalloc(&x, large) != cudaSuccess)
    cudaMalloc(&x, small);
  work<<<1, 1>>>(x, x);
  cudaFree(x);
}
