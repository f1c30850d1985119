// Device variables: written by the host, by the device, and pointing at one another.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

__constant__ float factors[4];
__device__ int counter = 5;
__device__ int table[4] = {1, 2, 3, 4};
__device__ int *third = &table[2];
__device__ const char *text = "hello";

__global__ void use(int *out) {
  static __device__ int calls;
  atomicAdd(&counter, 1);
  out[0] = *third;
  out[1] = text[1];
  out[2] = (int)(factors[0] + factors[3]);
  out[3] = atomicAdd(&calls, 1);
  table[0] = 42;
}

int main() {
  float values[4] = {1, 2, 3, 4};
  CUDA(cudaMemcpyToSymbol(factors, values, sizeof values));
  Array<int> out(4);
  use<<<1, 3>>>(out.data);
  EXPECT(out.get() == (std::vector<int>{3, 'e', 5, 2}));
  int count, first[4];
  CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  CUDA(cudaMemcpyFromSymbol(first, table, sizeof first));
  EXPECT(count == 8);
  EXPECT(first[0] == 42 && first[3] == 4);
  return finish();
}
