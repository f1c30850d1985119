// Two tasks that share nothing, each under a device of its own. They take turns. They are small: were they
// not of two devices, the second one would go where the process is already.

#include "check.h"

__global__ void add(int *values, int count, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] += by;
}

int main() {
  const int count = 256;
  int *a, *b, last_of_a, last_of_b;
  OK(cudaSetDevice(0));
  OK(cudaMalloc(&a, count * sizeof(int)));
  OK(cudaMemset(a, 0, count * sizeof(int)));
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&b, count * sizeof(int)));
  OK(cudaMemset(b, 0, count * sizeof(int)));
  for (int round = 0; round < 4; round++) {
    OK(cudaSetDevice(0));
    add<<<count / 256, 256>>>(a, count, 1);
    OK(cudaSetDevice(1));
    add<<<count / 256, 256>>>(b, count, 2);
  }
  OK(cudaSetDevice(0));
  OK(cudaMemcpy(&last_of_a, a + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
  OK(cudaSetDevice(1));
  OK(cudaMemcpy(&last_of_b, b + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
  OK(cudaFree(a));
  OK(cudaFree(b));
  puts(last_of_a == 4 && last_of_b == 8 ? "PASS" : "wrong");
}
