// A program that may load libraries, and so is open, has static tasks on each device in turn, and uses pinned memory and
// streams, which are CUDA's own then.

#include "check.h"

#include <dlfcn.h>

__global__ void step(float *from, float *to, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    to[i] = from[i] + 1;
}

__attribute__((noinline)) bool solve(int count, float *host) {
  size_t bytes = count * sizeof(float);
  float *a, *b;
  cudaStream_t stream;
  OK(cudaMalloc(&a, bytes));
  OK(cudaMalloc(&b, bytes));
  OK(cudaMemset(a, 0, bytes));
  OK(cudaMemset(b, 0, bytes));
  step<<<(count + 255) / 256, 256>>>(a, b, count);
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  OK(cudaStreamCreate(&stream));
  step<<<(count + 255) / 256, 256, 0, stream>>>(b, a, count);
  OK(cudaGetLastError());
  OK(cudaMemcpyAsync(host, a, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(a));
  OK(cudaFree(b));
  return host[count - 1] == 2;
}

int main(int count, char **arguments) {
  int devices = 0;
  float *host;
  if (count > 1)
    dlopen(arguments[1], RTLD_LAZY);
  OK(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; device++) {
    OK(cudaSetDevice(device));
    OK(cudaFree(0));
    if (device == 0)
      OK(cudaMallocHost(&host, 16384 * sizeof(float)));
    if (!solve(16384, host)) {
      printf("wrong on device %d\n", device);
      return 1;
    }
  }
  puts("PASS");
}
