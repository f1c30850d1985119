// What programs that use several devices share. There are two or more, and each has 64 MiB.
#pragma once

#include "check.h"
#include <vector>

__global__ void add(unsigned char *bytes, size_t count, int value) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

inline int devices() {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  EXPECT(count >= 2);
  return 2;
}

inline void make(Box &box, size_t bytes) {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, bytes));
  box.pointer = static_cast<unsigned char *>(pointer);
  box.bytes = bytes;
}

inline void run(const Box &box, int value, cudaStream_t stream = 0) {
  add<<<unsigned((box.bytes + 127) / 128), 128, 0, stream>>>(box.pointer, box.bytes, value);
  OK(cudaGetLastError());
}

inline void check(const Box &box, int value) {
  std::vector<unsigned char> host(box.bytes);
  OK(cudaMemcpy(host.data(), box.pointer, box.bytes, cudaMemcpyDeviceToHost));
  for (unsigned char byte : host)
    EXPECT(byte == (unsigned char)value);
}
