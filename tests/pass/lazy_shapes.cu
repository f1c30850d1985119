// Shapes of programs whose objects cannot be told apart, counted or named.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}
bool more();

// CHECK-NOT: @mgb_task_

// REPORT: task 1 lazy in piled(int)
// REPORT: why allocated-in-loop: allocated again while it may still be alive
void piled(int n) {
  int *first, *x;
  cudaMalloc(&first, n);
  while (more()) {
    cudaMalloc(&x, n);
    cudaMemcpy(x, first, n, cudaMemcpyDeviceToDevice);
    work<<<1, 1>>>(x);
  }
}

// REPORT: task 2 lazy in managed(int)
// REPORT: why untreated-call: cudaMallocManaged is passed on to CUDA as it is
void managed(int n) {
  int *x;
  cudaMallocManaged((void **)&x, n, 1);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// REPORT: task 3 lazy in chosen(void (*)(int*))
// REPORT: why unknown-kernel: a kernel is launched through a pointer
void chosen(void (*kernel)(int *)) {
  int *x;
  cudaMalloc(&x, 64);
  kernel<<<1, 1>>>(x);
}

// REPORT: task 4 lazy in unused(int)
// REPORT: why no-dominating-point: nothing in this task needs a GPU
void unused(int n) {
  int *x;
  cudaMalloc(&x, n);
  cudaFree(x);
}

// REPORT: task 5 lazy in recursive(int)
// REPORT: why many-objects: this function calls itself
void recursive(int n) {
  int *x;
  cudaMalloc(&x, n);
  if (n > 1)
    recursive(n / 2);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
