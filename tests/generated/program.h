// What generated programs share. With ON_HOST the same source is a program without CUDA, whose kernels are loops: it says
// what every checksum must be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#ifdef ON_HOST
#define __global__
#define __host__
#define __device__
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x = 1) : x(x) {}
};
inline dim3 blockIdx, blockDim, threadIdx, gridDim;
template <class F> void each_thread(dim3 grid, dim3 block, F &&f) {
  gridDim = grid, blockDim = block;
  for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
      f();
}
#define LAUNCH(kernel, grid, block, stream, ...) each_thread(grid, block, [&] { kernel(__VA_ARGS__); })
using cudaError_t = int;
using cudaStream_t = int;
using cudaEvent_t = int;
enum { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
template <class T> int cudaMalloc(T **to, size_t bytes) {
  *to = static_cast<T *>(malloc(bytes));
  return 0;
}
template <class T> int cudaMallocHost(T **to, size_t bytes) { return cudaMalloc(to, bytes); }
template <class T> int cudaMallocManaged(T **to, size_t bytes) { return cudaMalloc(to, bytes); }
inline int cudaFree(void *at) { return free(at), 0; }
inline int cudaFreeHost(void *at) { return free(at), 0; }
inline int cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) { return memmove(to, from, bytes), 0; }
inline int cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return memmove(to, from, bytes), 0;
}
inline int cudaMemset(void *to, int value, size_t bytes) { return memset(to, value, bytes), 0; }
inline int cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) { return memset(to, value, bytes), 0; }
inline int cudaDeviceSynchronize() { return 0; }
inline int cudaGetLastError() { return 0; }
inline const char *cudaGetErrorName(int) { return ""; }
inline int cudaStreamCreate(cudaStream_t *to) { return *to = 0; }
inline int cudaStreamSynchronize(cudaStream_t) { return 0; }
inline int cudaStreamDestroy(cudaStream_t) { return 0; }
inline int cudaEventCreate(cudaEvent_t *to) { return *to = 0; }
inline int cudaEventRecord(cudaEvent_t, cudaStream_t) { return 0; }
inline int cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return 0; }
inline int cudaEventSynchronize(cudaEvent_t) { return 0; }
inline int cudaEventDestroy(cudaEvent_t) { return 0; }
template <class T> int cudaMemcpyToSymbol(T &symbol, const void *from, size_t bytes) {
  return memcpy(&symbol, from, bytes), 0;
}
template <class T> int cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes) {
  return memcpy(to, &symbol, bytes), 0;
}
#else
#define LAUNCH(kernel, grid, block, stream, ...)                                                                       \
  do {                                                                                                                 \
    kernel<<<grid, block, 0, stream>>>(__VA_ARGS__);                                                                   \
    CHECK(cudaGetLastError());                                                                                         \
  } while (0)
#endif

inline void check(cudaError_t code, const char *call, int line) {
  if (code == cudaSuccess)
    return;
  fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorName(code));
  exit(2);
}
#define CHECK(call) check((call), #call, __LINE__)
// Gives up by an exception, past the destructors of what is live.
#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    cudaError_t code_ = (call);                                                                                        \
    if (code_ != cudaSuccess)                                                                                          \
      throw std::runtime_error(cudaGetErrorName(code_));                                                               \
  } while (0)
// Gives up by the caller's own code.
#define PASS_ON(call)                                                                                                  \
  do {                                                                                                                 \
    if ((call) != cudaSuccess)                                                                                         \
      return -1;                                                                                                       \
  } while (0)

// What a program has seen so far. Branches look at it.
struct Sum {
  unsigned value = 2166136261u;
  void add(const unsigned *words, size_t count) {
    for (size_t i = 0; i < count; i++)
      value = (value ^ words[i]) * 16777619u;
  }
  void add_device(const unsigned *words, size_t count) {
    std::vector<unsigned> host(count);
    CHECK(cudaMemcpy(host.data(), words, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    add(host.data(), count);
  }
};

// Device memory that goes when its owner does.
class Buffer {
public:
  explicit Buffer(size_t count) : count(count) { TRY(cudaMalloc(&words, count * sizeof(unsigned))); }
  Buffer(Buffer &&other) noexcept : words(std::exchange(other.words, nullptr)), count(other.count) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(words, other.words);
    std::swap(count, other.count);
    return *this;
  }
  ~Buffer() { cudaFree(words); }
  unsigned *get() const { return words; }

private:
  unsigned *words = nullptr;
  size_t count;
};

struct Freed {
  void operator()(unsigned *words) const { cudaFree(words); }
};
using Owned = std::unique_ptr<unsigned, Freed>;

struct View {
  unsigned *words;
  size_t count;
};

// A structure on the host, of which a copy is made that points to the device.
struct Pair {
  unsigned *first, *second;
  size_t count;
};

// An argument of a kernel that is passed by address, since it has a copy constructor.
struct Argument {
  Argument(unsigned *words, size_t count) : words(words), count(count) {}
  __host__ __device__ Argument(const Argument &other) : words(other.words), count(other.count) {}
  unsigned *words;
  size_t count;
};

#define EACH(i, count)                                                                                                 \
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < (count); i += size_t(gridDim.x) * blockDim.x)
