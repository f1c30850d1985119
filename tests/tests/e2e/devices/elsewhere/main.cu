// Loops over devices that a function of another file chooses: to the pass they are one task, more than a GPU has.

#include "../check.h"

void choose(int device);

__global__ void add(int *values, size_t count, int by) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    values[i] += by;
}

// The work of one device in one task, which goes by the device that is current.
__attribute__((noinline)) bool alone(int by) {
  const size_t count = 4096;
  int *memory, last;
  OK(cudaMalloc(&memory, count * sizeof(int)));
  OK(cudaMemset(memory, 0, count * sizeof(int)));
  add<<<4, 128>>>(memory, count, by);
  OK(cudaMemcpy(&last, memory + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
  OK(cudaFree(memory));
  return last == by;
}

int main(int, char **arguments) {
  const size_t count = 4096, bytes = size_t(atoi(arguments[1])) << 20;
  const int most = 16;
  int devices, *memory[most], last[most];
  OK(cudaGetDeviceCount(&devices));
  for (int i = 0; i < devices; i++) {
    choose(i);
    OK(cudaMalloc(&memory[i], bytes));
  }
  for (int i = 0; i < devices; i++) {
    choose(i);
    OK(cudaMemset(memory[i], 0, count * sizeof(int)));
  }
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < devices; i++) {
      choose(i);
      add<<<4, 128>>>(memory[i], count, i + 1);
      OK(cudaGetLastError());
      if (!alone(i + 7))
        return 2;
    }
  for (int i = 0; i < devices; i++) {
    choose(i);
    OK(cudaMemcpy(&last[i], memory[i] + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
    OK(cudaFree(memory[i]));
    if (last[i] != 3 * (i + 1))
      return 1;
  }
  puts("PASS");
}
