// Globals of main's file that are arrays of device pointers, filled in a loop, and used by a function that is called
// twice.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x, int *y) {}

static int *from[4], *to[4];

static void step(int used) {
  for (int i = 0; i < 10; i++)
    work<<<1, 1>>>(from[i % used], to[i % used]);
}

// CHECK: static in main
// CHECK: object 1 from: 4 * n
// CHECK: object 2 to: 4 * 2 * n
// CHECK-NOT: lazy
int main(int argc, char **argv) {
  size_t n = atoi(argv[1]);
  for (int i = 0; i < 4; i++) {
    cudaMalloc(&from[i], n);
    cudaMalloc(&to[i], 2 * n);
  }
  step(1);
  step(4);
  for (int i = 0; i < 4; i++) {
    cudaFree(from[i]);
    cudaFree(to[i]);
  }
}
