// The need must be known before the first touching op, on every path.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}
int ask();

// CHECK-NOT: @mgb_task_begin

// Each branch allocates its own size; no point before both launches has both sizes.
// REPORT: task 1 lazy in either(bool)
// REPORT: why no-dominating-point: this size is computed on some paths only{{.*}} (:[[@LINE+5]])
// REPORT: why no-dominating-point: this size is computed on some paths only{{.*}} (:[[@LINE+7]])
void either(bool left) {
  int *x;
  if (left) {
    cudaMalloc(&x, ask());
    work<<<1, 1>>>(x);
  } else {
    cudaMalloc(&x, ask());
    work<<<2, 1>>>(x);
  }
  cudaFree(x);
}

// The second size depends on what the task has computed.
// REPORT: task 2 lazy in result()
// REPORT: why need-undefined: this size is known only after the task has begun (:[[@LINE+7]])
void result() {
  int *x, *y;
  int n;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaMemcpy(&n, x, 4, cudaMemcpyDeviceToHost);
  cudaMalloc(&y, n);
  cudaMemcpy(y, x, 4, cudaMemcpyDeviceToDevice);
  cudaFree(x);
  cudaFree(y);
}

// The begin is outside the loop, the size is not, and its greatest value is not known.
// REPORT: task 3 lazy in varying(int)
// REPORT: why need-undefined: this size is known only after the task has begun
void varying(int n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  for (int i = 0; i < n; i++) {
    cudaMalloc(&y, ask());
    cudaMemcpy(y, x, 4, cudaMemcpyDeviceToDevice);
    cudaFree(y);
  }
  cudaFree(x);
}
