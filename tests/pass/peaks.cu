// Peaks: the largest sum of sizes that are alive together, on any path.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x, int *y) {}

// One variable for one object after another.
// CHECK: static in reused
// CHECK: peak: max(a, b)
void reused(size_t a, size_t b) {
  int *x;
  cudaMalloc(&x, a);
  work<<<1, 1>>>(x, x);
  cudaFree(x);
  cudaMalloc(&x, b);
  work<<<1, 1>>>(x, x);
  cudaFree(x);
}

// One of two allocations, never both; which one is known at the begin.
// CHECK: static in branched
// CHECK: peak: max((small != 0 ? a : 0) + c, (small == 0 ? b : 0) + c)
void branched(bool small, size_t a, size_t b, size_t c) {
  int *x, *y;
  if (small)
    cudaMalloc(&x, a);
  else
    cudaMalloc(&x, b);
  cudaMalloc(&y, c);
  work<<<1, 1>>>(x, y);
  cudaFree(x);
  cudaFree(y);
}

// Allocated in each iteration, but only ever one at a time.
// CHECK: static in scratch
// CHECK: peak: a + b
void scratch(int n, size_t a, size_t b) {
  int *x;
  cudaMalloc(&x, a);
  for (int i = 0; i < n; i++) {
    int *y;
    cudaMalloc(&y, b);
    work<<<1, 1>>>(x, y);
    cudaFree(y);
  }
  cudaFree(x);
}

// An error path that frees and leaves early changes nothing.
// CHECK: static in failing
// CHECK: peak: a + b
int failing(size_t a, size_t b) {
  int *x, *y;
  if (cudaMalloc(&x, a) != cudaSuccess)
    return 1;
  if (cudaMalloc(&y, b) != cudaSuccess) {
    cudaFree(x);
    return 1;
  }
  work<<<1, 1>>>(x, y);
  cudaFree(y);
  cudaFree(x);
  return 0;
}

// Never freed: alive to the end.
// CHECK: static in leaked
// CHECK: peak: a + b
void leaked(size_t a, size_t b) {
  int *x, *y;
  cudaMalloc(&x, a);
  cudaMemset(x, 0, a);
  cudaMalloc(&y, b);
  work<<<1, 1>>>(x, y);
}

// Rows are padded to 512 bytes.
// CHECK: static in pitched
// CHECK: peak: ((w + 511) / 512 * 512) * h
void pitched(size_t w, size_t h) {
  int *x;
  size_t pitch;
  cudaMallocPitch((void **)&x, &pitch, w, h);
  work<<<1, 1>>>(x, x);
  cudaFree(x);
}

// A task without objects, and one without launches.
// CHECK: static in nothing
// CHECK: peak: 0
// CHECK: static in copied
// CHECK: peak: n
// CHECK: grid: 0
void nothing() { work<<<1, 1>>>(nullptr, nullptr); }
void copied(size_t n, int *host) {
  int *x;
  cudaMalloc(&x, n);
  cudaMemset(x, 1, n);
  cudaMemcpy(host, x, n, cudaMemcpyDeviceToHost);
  cudaFree(x);
}
