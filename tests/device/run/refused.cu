// What cannot run here is an error of that launch, and of no other kernel.
// REQUIRES: softgpu
// RUN: %mgb-clang %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: inline PTX "fns.b32 $0, $1, 0, 1"
// CHECK: passed
#include "check.h"

__global__ void fine(int *out) { *out = 1; }
__global__ void stops(int *out) { asm volatile("fns.b32 %0, %1, 0, 1;" : "=r"(*out) : "r"(*out)); }

int main() {
  Array<int> out(1);
  stops<<<1, 1>>>(out.data);
  EXPECT(cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess);
  fine<<<1, 1>>>(out.data);
  EXPECT(out.get()[0] == 1);
  return finish();
}
