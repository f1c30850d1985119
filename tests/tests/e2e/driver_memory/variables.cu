// Holds so many MiB through pauses, and counts its rounds in a device variable, for which the driver takes memory at
// the first use: variables MIB ROUNDS HOW, by a launch or by a copy to the symbol.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      std::printf("variables: line %d: %d %s\n", __LINE__, error, cudaGetErrorString(error));                          \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

__device__ int rounds;

__global__ void count(int *bytes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) bytes[i]++;
  if (i == 0) rounds++;
}

int main(int, char **arguments) {
  size_t size = size_t(std::atoi(arguments[1])) << 20;
  int wanted = std::atoi(arguments[2]), n = 1024, *memory, first, counted, zero = 0;
  CHECK(cudaMalloc(&memory, size));
  CHECK(cudaMemset(memory, 0, size));
  if (std::strcmp(arguments[3], "copy") == 0) CHECK(cudaMemcpyToSymbol(rounds, &zero, sizeof zero));
  for (int round = 0; round < wanted; ++round) {
    count<<<(n + 255) / 256, 256>>>(memory, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    usleep(5000);
  }
  CHECK(cudaMemcpy(&first, memory, sizeof first, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&counted, rounds, sizeof counted));
  CHECK(cudaFree(memory));
  std::printf("variables: %d %d\n", first, counted);
  return first != wanted || counted != wanted;
}
