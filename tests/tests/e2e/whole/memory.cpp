// A program's own layer over the runtime.
#include <cuda_runtime.h>
#include <stdexcept>

float *room(int n) {
  void *p = nullptr;
  if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess)
    throw std::runtime_error("no memory");
  return static_cast<float *>(p);
}

void fill(float *to, const float *from, int n) {
  cudaMemcpy(to, from, n * sizeof(float), cudaMemcpyHostToDevice);
}

void fetch(float *to, const float *from, int n) {
  cudaMemcpy(to, from, n * sizeof(float), cudaMemcpyDeviceToHost);
}

void release(float *p) {
  cudaFree(p);
}
