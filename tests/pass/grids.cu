// The grid and block of the largest launch of a task, in 64 bits.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}

// CHECK-LABEL: define {{.*}} @_Z6planesjjjPi
// CHECK: %[[W:.*]] = zext i32 %w to i64
// CHECK: mul i64 %[[W]]
// CHECK: store i32 128, ptr
// REPORT: task 1 static in planes
// REPORT: grid: w * h * d
// REPORT: block: 128
// REPORT: shared: 4 * w
void planes(unsigned w, unsigned h, unsigned d, int *host) {
  int *x;
  cudaMalloc(&x, 64);
  dim3 grid(w, h, d), block(16, 8);
  work<<<grid, block, w * sizeof(int)>>>(x);
  cudaFree(x);
}

// REPORT: task 2 static in several(int)
// REPORT: grid: max(n, (n + 7) / 8)
// REPORT: block: max(256, 8 * n)
void several(int n) {
  int *x;
  cudaMalloc(&x, 64);
  work<<<n, 256>>>(x);
  work<<<(n + 7) / 8, dim3(8, n)>>>(x);
  cudaFree(x);
}

// Pure arithmetic is repeated where the task begins, although it comes later in the program.
// REPORT: task 3 static in rounded(int, int const*)
// REPORT: grid: ceil(n / 256)
void rounded(int n, const int *host) {
  int *x;
  cudaMalloc(&x, n);
  cudaMemcpy(x, host, n, cudaMemcpyHostToDevice);
  work<<<ceil(n / 256.0), 256>>>(x);
  cudaFree(x);
}

// A grid that is known later keeps no task lazy.
// REPORT: task 4 static in later(int*)
// REPORT: grid: at least 7
// REPORT: task 5 static in unknown(int*)
// REPORT: grid: unknown
// REPORT: block: 32
void later(int *host) {
  int *x;
  cudaMalloc(&x, 64);
  work<<<7, 32>>>(x);
  cudaMemcpy(host, x, 4, cudaMemcpyDeviceToHost);
  work<<<host[0], 32>>>(x);
  cudaFree(x);
}
void unknown(int *host) {
  int *x;
  cudaMalloc(&x, 64);
  cudaMemcpy(host, x, 4, cudaMemcpyDeviceToHost);
  work<<<host[0], 32>>>(x);
  cudaFree(x);
}
