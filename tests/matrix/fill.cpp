// Code outside of MGB that uses CUDA by itself: with it in the process, device memory has to be there at once.
#include <cuda_runtime.h>

extern "C" int fill(void *memory, int byte, size_t bytes) {
  return cudaMemset(memory, byte, bytes) != cudaSuccess;
}
