// Launches on memory that it is given.
#include <cuda_runtime.h>

static __device__ int launches;

static __global__ void advance(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0)
    launches += 10;
  if (i < n)
    x[i] *= 2;
}

void fold(float *x, int n) {
  advance<<<(n + 63) / 64, 64>>>(x, n);
}

int fold_launches() {
  int n;
  cudaMemcpyFromSymbol(&n, launches, sizeof n);
  return n;
}
