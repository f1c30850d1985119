// Threads that cannot be coroutines, since they wait in a recursive function, wait at a barrier and then for
// writes of other blocks: yielding is not a second arrival at the barrier.
// REQUIRES: softgpu
// RUN: %mgb-clang -O1 %s -o %t
// RUN: %softgpu %t | FileCheck %s
#include <cstdio>

__device__ unsigned arrived;

__device__ __noinline__ void meet(int deep, unsigned wanted) {
  if (deep > 0) {
    meet(deep - 1, wanted);
    return;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&arrived, 1);
    while (*(volatile unsigned *)&arrived < wanted) {
    }
  }
  __syncthreads();
}

__global__ void blocks(unsigned *out, int deep) {
  for (int round = 1; round <= 3; round++)
    meet(deep, round * gridDim.x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = arrived;
}

int main() {
  unsigned *device, host[256];
  cudaMalloc(&device, sizeof host);
  blocks<<<4, 64>>>(device, 3);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  // CHECK: no error: 12 12
  std::printf("%s: %u %u\n", cudaGetErrorString(cudaGetLastError()), host[0], host[255]);
}
