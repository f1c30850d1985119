// The usual loops of programs with several devices. Each device holds six tenths of its memory: two do not fit on one GPU.

#include "check.h"

__global__ void add(int *values, size_t count, int by) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    values[i] += by;
}

int main() {
  const size_t count = 4096;
  const int most = 16;
  int devices, *memory[most], last[most];
  size_t total, free;
  OK(cudaGetDeviceCount(&devices));
  OK(cudaMemGetInfo(&free, &total));
  for (int i = 0; i < devices; i++) {
    OK(cudaSetDevice(i));
    OK(cudaMalloc(&memory[i], total / 10 * 6));
  }
  for (int i = 0; i < devices; i++) {
    OK(cudaSetDevice(i));
    OK(cudaMemset(memory[i], 0, count * sizeof(int)));
  }
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < devices; i++) {
      OK(cudaSetDevice(i));
      add<<<4, 128>>>(memory[i], count, i + 1);
      OK(cudaGetLastError());
    }
  for (int i = 0; i < devices; i++) {
    OK(cudaSetDevice(i));
    OK(cudaMemcpy(&last[i], memory[i] + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
    OK(cudaFree(memory[i]));
    if (last[i] != 3 * (i + 1))
      return 1;
  }
  puts("PASS");
}
