// What the library programs share: checks that say where, and the arrays that they work on.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define EXPECT(condition)                                                                                    \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

// Calls of CUDA and of its libraries: success is 0 in all of them.
#define OK(call)                                                                                             \
  do {                                                                                                       \
    int code_ = int(call);                                                                                   \
    if (code_ != 0) {                                                                                        \
      fprintf(stderr, "%s:%d: %s is %d\n", __FILE__, __LINE__, #call, code_);                                \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

template <class T> T *to_device(const std::vector<T> &host) {
  T *device;
  OK(cudaMalloc(&device, host.size() * sizeof(T)));
  OK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

template <class T> std::vector<T> to_host(const T *device, size_t count) {
  std::vector<T> host(count);
  OK(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

inline void near(double found, double expected, double allowed) {
  if (!(std::fabs(found - expected) <= allowed)) {
    fprintf(stderr, "%.9g instead of %.9g\n", found, expected);
    exit(1);
  }
}
