// An object that is allocated in each iteration counts with its greatest size, if that is known before the
// loop.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x, int *y) {}

// CHECK: static in counting(unsigned long)
// CHECK: peak: 64 + 8 * (max(n, 1) - 1)
void counting(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (size_t i = 0; i < n; i++) {
    cudaMalloc(&y, 8 * i);
    work<<<1, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}

// Multiplied in each iteration, between numbers: 1, 16 and 256.
// CHECK: static in powers(unsigned long)
// CHECK: peak: 64 + {{.*256.*}}
// CHECK: grid: 256
void powers(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (unsigned i = 1; i < 1000; i *= 16) {
    cudaMalloc(&y, n * i);
    work<<<i, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}

// Halved in each iteration: the first value is the largest.
// CHECK: static in halves(unsigned long)
// CHECK: peak: 64 + 4 * n
void halves(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (size_t i = n; i > 0; i /= 2) {
    cudaMalloc(&y, i * sizeof(int));
    work<<<1, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}

// A loop in a loop whose bound is the other's variable.
// CHECK: static in nested(unsigned long)
// CHECK: peak: 64 + 16 *
void nested(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (size_t i = 1; i <= n; i++)
    for (size_t j = 0; j <= 2 * i; j += 2) {
      cudaMalloc(&y, 16 * j);
      work<<<1, 1>>>(x, y);
      cudaFree(y);
    }
  cudaFree(x);
}

// A size that shrinks as the variable grows is not analysed. Nor is a variable that is not a counter.
// CHECK: lazy in falling(unsigned long)
// CHECK: why need-undefined
void falling(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (size_t i = 0; i < n; i++) {
    cudaMalloc(&y, n - i);
    work<<<1, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}
// CHECK: lazy in crossed(unsigned long)
// CHECK: why need-undefined
void crossed(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (size_t i = 1; i < n; i = i * i + 1) {
    cudaMalloc(&y, i ^ 5);
    work<<<1, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}

// The test follows the body and uses its value: the body runs once more.
// CHECK: static in after(unsigned long)
// CHECK: peak: 64 + 8 * (max(1 + n, 1) - 1)
void after(size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  size_t i = 0;
  do {
    cudaMalloc(&y, 8 * i);
    cudaMemcpy(y, x, 1, cudaMemcpyDeviceToDevice);
    cudaFree(y);
  } while (i++ < n);
  cudaFree(x);
}
