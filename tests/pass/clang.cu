// Through clang at every level, as users get it; without names and lines the report still says what
// it can. The probes outlive the optimizer.
// RUN: %clang-mgb -O0 %s | FileCheck %s
// RUN: %clang-mgb -O0 -Xclang -disable-O0-optnone %s | FileCheck %s
// RUN: %clang-mgb -O1 %s | FileCheck %s
// RUN: %clang-mgb -O2 %s | FileCheck %s
// RUN: %clang-mgb -O3 %s | FileCheck %s
// RUN: %clang-mgb -O2 -g %s -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=NAMED
// RUN: %clang-mgb -O2 -g0 -fdiscard-value-names %s -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=BARE
// RUN: %clang-mgb -O2 -g -fdiscard-value-names %s -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=NAMED
#include "cuda.h"
__global__ void work(int *x, int n) {}

// CHECK: @mgb_task_begin
// CHECK: @mgb_cudaMemcpy
// CHECK: __device_stub__work
// CHECK: @mgb_cudaFree
// CHECK: @mgb_task_end
// CHECK-NOT: @cudaMalloc

// NAMED: object 1 x: 4 * n
// NAMED: op cudaMemcpy [1] :[[@LINE+11]]
// NAMED: peak: 4 * n
// NAMED: grid: (n + 31) / 32
// BARE: object 1 : 4 * atoi()
// BARE: op cudaMemcpy [1] :0
// BARE: peak: 4 * atoi()
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1000;
  int host[16] = {};
  int *x;
  cudaMalloc(&x, n * sizeof(int));
  cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice);
  work<<<(n + 31) / 32, 32>>>(x, n);
  cudaFree(x);
}
