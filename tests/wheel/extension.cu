// An extension of Python that is built with MGB.

#include <cuda_runtime.h>

__global__ void put(int *to) { *to = 42; }

extern "C" int compute(int mib) {
  int *memory = nullptr, answer = 0;
  if (cudaMalloc(&memory, size_t(mib) << 20) != cudaSuccess)
    return -1;
  put<<<1, 1>>>(memory);
  cudaMemcpy(&answer, memory, sizeof answer, cudaMemcpyDeviceToHost);
  cudaFree(memory);
  return answer;
}
