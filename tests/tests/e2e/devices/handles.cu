// A stream and events of one device, whose work ran where another device of the program was, and that one's reset.
#include <cstdio>
#include <cuda_runtime.h>

#define OK(call) if (cudaError_t code = (call)) return printf("%s: %s\n", #call, cudaGetErrorName(code)), 1

int main() {
  void *at;
  float passed;
  cudaStream_t stream;
  cudaEvent_t first, second;
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&at, 1000));
  OK(cudaMemset(at, 1, 1000));
  OK(cudaSetDevice(0));
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&first));
  OK(cudaEventCreate(&second));
  OK(cudaEventRecord(first, stream));
  OK(cudaLaunchHostFunc(stream, [](void *) {}, nullptr));
  OK(cudaEventRecord(second, stream));
  OK(cudaSetDevice(1));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(0));
  OK(cudaEventSynchronize(second));
  OK(cudaEventElapsedTime(&passed, first, second));
  OK(cudaLaunchHostFunc(stream, [](void *) {}, nullptr));
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventDestroy(first));
  OK(cudaEventDestroy(second));
  OK(cudaStreamDestroy(stream));
  puts("PASS");
}
