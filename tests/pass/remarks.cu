// What the pass decides, through LLVM's own channel: -Rpass=mgb for tasks bound before they run,
// -Rpass-missed=mgb for those bound lazily, with the reason.
// RUN: %clang-mgb -O1 -Rpass=mgb -Rpass-missed=mgb %s -o %t.ll 2>&1 | FileCheck %s
// RUN: %clang-mgb -O1 %s -o %t.ll 2>&1 | count 0
#include "cuda.h"

__global__ void work(int *x) {}

void known(int n) {
  int *x;
  cudaMalloc(&x, n);
  // CHECK: remarks.cu:[[@LINE+1]]:{{[0-9]+}}: remark: GPU task begins here, bound before it runs: needs n bytes, launches at most 4 blocks of 32 threads [-Rpass=mgb]
  work<<<4, 32>>>(x);
  cudaFree(x);
}

// CHECK: remarks.cu:[[@LINE+2]]:{{[0-9]+}}: remark: GPU task is bound lazily: {{.*}} [allocated-elsewhere] [-Rpass-missed=mgb]
void given(int *x) {
  work<<<1, 1>>>(x);
}
