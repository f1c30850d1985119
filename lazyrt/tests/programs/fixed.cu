// A program without a kernel that is linked to fixed addresses and defines nothing for others: GNU ld gives it an empty
// hash table. It calls the driver API, and prints how many GPUs it sees.

#include <cstdio>
#include <cuda.h>

int main() {
  int driver = 0, runtime = 0;
  void *pointer;
  if (cudaMalloc(&pointer, 1 << 20) != cudaSuccess || cudaMemset(pointer, 0, 1 << 20) != cudaSuccess)
    return 1;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&driver) != CUDA_SUCCESS)
    return 1;
  if (cudaGetDeviceCount(&runtime) != cudaSuccess || cudaFree(pointer) != cudaSuccess)
    return 1;
  printf("%d %d\n", driver, runtime);
}
