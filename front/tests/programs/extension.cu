// A library that was built with MGB, as an extension of a language whose interpreter was not.
#include <cuda_runtime.h>

// Takes device memory for good. Returns whether it can be used.
extern "C" int take(size_t bytes) {
  unsigned char *memory, back = 0;
  if (cudaMalloc(&memory, bytes) != cudaSuccess || cudaMemset(memory, 9, bytes) != cudaSuccess)
    return 0;
  if (cudaMemcpy(&back, memory + bytes - 1, 1, cudaMemcpyDeviceToHost) != cudaSuccess)
    return 0;
  return back == 9;
}
