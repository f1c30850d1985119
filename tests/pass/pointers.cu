// Pointers that are followed: into the middle of objects, chosen among objects, kept in structures of
// which no address goes anywhere, compared, and given to cudaLaunchKernel by hand.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x) {}
__global__ void scaled(int *x, float by) {}

// CHECK: task 1 static in interior
// CHECK: op launch work(int*) [1]
// CHECK: op cudaMemcpy [1]
void interior(int n, int *host) {
  int *x;
  cudaMalloc(&x, 4 * n);
  work<<<1, 1>>>(x + n / 2);
  cudaMemcpy(host, x + 3, 4, cudaMemcpyDeviceToHost);
  cudaFree(x);
}

// CHECK: task 2 static in chosen
// CHECK: op launch work(int*) [1,2]
// CHECK: peak: 2 * n
void chosen(bool left, int n) {
  int *x, *y;
  cudaMalloc(&x, n);
  cudaMalloc(&y, n);
  if (x == nullptr || y == nullptr)
    exit(1);
  work<<<1, 1>>>(left ? x : y);
  cudaFree(x);
  cudaFree(y);
}

// CHECK: task 3 static in kept
// CHECK: peak: 2 * n
struct Buffers {
  int *in = nullptr;
  int *out = nullptr;
};
void kept(int n) {
  Buffers buffers;
  cudaMalloc(&buffers.in, n);
  cudaMalloc(&buffers.out, n);
  cudaMemcpy(buffers.out, buffers.in, n, cudaMemcpyDeviceToDevice);
  work<<<1, 1>>>(buffers.out);
  cudaFree(buffers.in);
  cudaFree(buffers.out);
}

// CHECK: task 4 static in by_hand
// CHECK: op launch scaled(int*, float) [1]
// CHECK: grid: n
// CHECK: block: 64
void by_hand(int n, float by) {
  int *x;
  cudaMalloc(&x, n);
  void *arguments[] = {&x, &by};
  cudaLaunchKernel(scaled, n, 64, arguments);
  cudaFree(x);
}

// A copy whose direction the runtime finds out, from memory that is the host's.
// CHECK: task 5 static in found_out
// CHECK: op cudaMemcpy [1]
void found_out() {
  int *x, host[4] = {};
  cudaMalloc(&x, sizeof(host));
  cudaMemcpy(x, host, sizeof(host), cudaMemcpyDefault);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
