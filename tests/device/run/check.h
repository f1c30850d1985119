// What the programs in run/ share: device arrays, and checks that count.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static int failures;

#define EXPECT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                                    \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

#define CUDA(call)                                                                                                     \
  do {                                                                                                                 \
    if (cudaError_t error = call) {                                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));                        \
      exit(2);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/// An array on the device.
template <class T> struct Array {
  T *data;
  size_t count;
  explicit Array(size_t count) : count(count) {
    CUDA(cudaMalloc((void **)&data, count * sizeof(T)));
    CUDA(cudaMemset(data, 0, count * sizeof(T)));
  }
  explicit Array(const std::vector<T> &values) : Array(values.size()) {
    CUDA(cudaMemcpy(data, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array &) = delete;
  ~Array() { cudaFree(data); }
  /// Waits for the device; its values.
  std::vector<T> get() const {
    std::vector<T> values(count);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
};

static int finish() {
  CUDA(cudaDeviceSynchronize());
  puts(failures ? "failed" : "passed");
  return failures != 0;
}
