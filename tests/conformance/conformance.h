// A set of small cases, each one intrinsic or API family. What a case computes is printed; what a real GPU printed is
// kept in recorded/, and softgpu is held against it.
//
//   PROGRAM           every case, each in a process of its own
//   PROGRAM CASE...   these cases
//   PROGRAM --list    the names
//
// A line of output is `CASE TYPE VALUES...`, in hexadecimal, or `CASE failed WHY`. TYPE says how values compare:
// `u32` and `u64` exactly; `f32:N`, `f64:N`, `f16:N`, `bf16:N` as floating-point bit patterns that may differ by N units
// in the last place (any NaN is like any other). The values of `right` are 1 where the case found what it computed itself.
//
// A program that no GPU has recorded yet says itself what is right: by cases of `right`, or with CONFORMANCE_MODEL=1, with
// which its cases compare what they have with what expect() is given, and fail where that differs.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace conformance {

// Longest life of a case's process, in seconds.
constexpr unsigned kPatience = 20;

// What a case computed: bit patterns.
struct Record {
  std::string type;
  std::vector<uint64_t> values;
};

struct Case {
  const char *name;
  std::function<void(Record &)> run;
};

inline std::vector<Case> &cases() {
  static std::vector<Case> all;
  return all;
}

struct Registered {
  Registered(const char *name, std::function<void(Record &)> run) { cases().push_back({name, run}); }
};

// Ends the case's process, saying why.
[[noreturn]] inline void give_up(const char *what, cudaError_t error) {
  printf(" failed %s: %s\n", what, cudaGetErrorName(error));
  fflush(stdout);
  _exit(0);
}

inline void check(const char *what, cudaError_t error) {
  if (error != cudaSuccess)
    give_up(what, error);
}

// What a case's values are called, and how far they may be off.
template <class T> std::string type_name(unsigned ulps) {
  const char *name = std::is_same<T, float>::value    ? "f32"
                     : std::is_same<T, double>::value ? "f64"
                     : sizeof(T) == 8                 ? "u64"
                                                      : "u32";
  bool floats = name[0] == 'f';
  return floats ? std::string(name) + ":" + std::to_string(ulps) : name;
}

template <class T> uint64_t bits(T value) {
  uint64_t all = 0;
  memcpy(&all, &value, sizeof value);
  return all;
}

// Runs a kernel whose threads each write one value, and records the values.
template <class T>
void run_kernel(Record &record, void (*kernel)(T *), dim3 blocks, dim3 threads, unsigned ulps, size_t shared = 0) {
  size_t n = size_t(blocks.x) * blocks.y * blocks.z * threads.x * threads.y * threads.z;
  T *device;
  check("cudaMalloc", cudaMalloc(&device, n * sizeof(T)));
  check("cudaMemset", cudaMemset(device, 0, n * sizeof(T)));
  kernel<<<blocks, threads, shared>>>(device);
  check("launch", cudaGetLastError());
  check("cudaDeviceSynchronize", cudaDeviceSynchronize());
  std::vector<T> host(n);
  check("cudaMemcpy", cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
  record.type = type_name<T>(ulps);
  for (T value : host)
    record.values.push_back(bits(value));
}

// A case of one block of 64 threads; its body sets out[i].
#define CASE(name, T) CASE_OF(name, T, 1, 64, 0)
// The same, with floating-point results that may be off by some units in the last place.
#define CASE_WITHIN(name, T, ulps) CASE_OF(name, T, 1, 64, ulps)
#define CASE_OF(name, T, blocks, threads, ulps)                                                                        \
  __global__ void name##_kernel(T *out);                                                                               \
  static conformance::Registered name##_registered(                                                                   \
      #name, [](conformance::Record &r) { conformance::run_kernel<T>(r, name##_kernel, blocks, threads, ulps); });    \
  __global__ void name##_kernel(T *out)
// A case that knows what is right, and needs no record: its body sets out[i] to whether thread i found it so.
#define SELF_CASE(name)                                                                                                \
  __global__ void name##_kernel(unsigned *out);                                                                        \
  static conformance::Registered name##_registered(#name, [](conformance::Record &r) {                                 \
    conformance::run_kernel<unsigned>(r, name##_kernel, 1, 64, 0);                                                     \
    r.type = "right";                                                                                                  \
  });                                                                                                                  \
  __global__ void name##_kernel(unsigned *out)
// A case of the host's side; its body records codes and values with put().
#define HOST_CASE(name)                                                                                                \
  static void name##_case(conformance::Record &record);                                                                \
  static conformance::Registered name##_registered(#name, name##_case);                                                \
  static void name##_case(conformance::Record &record)

template <class T> void put(Record &record, T value) {
  record.type = "u64";
  record.values.push_back(bits(value));
}

// Whether two values are the same, as the type of a record says.
inline bool same(const std::string &type, uint64_t one, uint64_t other) {
  if (type.rfind("f32:", 0) != 0)
    return one == other;
  auto place = [](uint32_t bits) { return bits >> 31 ? -int64_t(bits & 0x7fffffff) : int64_t(bits); };
  return llabs(place(uint32_t(one)) - place(uint32_t(other))) <= atoll(type.c_str() + 4);
}

// What the record should hold, as far as the host can tell.
inline void expect(const Record &record, const std::vector<uint64_t> &model) {
  if (!getenv("CONFORMANCE_MODEL"))
    return;
  bool right = record.values.size() == model.size();
  size_t at = 0;
  while (right && at < model.size() && (right = same(record.type, record.values[at], model[at])))
    at++;
  if (right)
    return;
  printf(" failed model: value %zu is %llx, not %llx, of %zu and %zu\n", at,
         (unsigned long long)(at < record.values.size() ? record.values[at] : 0),
         (unsigned long long)(at < model.size() ? model[at] : 0), record.values.size(), model.size());
  fflush(stdout);
  _exit(0);
}

// The number of a thread in a grid of any shape.
__device__ inline unsigned linear() {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  return block * (blockDim.x * blockDim.y * blockDim.z) + thread;
}

// Inputs: the special values first, then scattered ones. The same on host and device.
__host__ __device__ inline uint32_t scatter(uint32_t i) {
  i = (i ^ 61u) ^ (i >> 16);
  i *= 9u;
  i ^= i >> 4;
  i *= 0x27d4eb2du;
  return i ^ (i >> 15);
}

__host__ __device__ inline uint32_t any32(uint32_t i) {
  const uint32_t special[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe};
  return i % 64 < 8 ? special[i % 64] : scatter(i);
}

__host__ __device__ inline uint64_t any64(uint32_t i) {
  const uint64_t special[] = {0,          1,          0x7fffffffffffffffull, 0x8000000000000000ull,
                              ~0ull,      ~1ull,      0xffffffffull,         0x100000000ull};
  return i % 64 < 8 ? special[i % 64] : (uint64_t(scatter(i)) << 32 | scatter(i + 1000));
}

__device__ inline float any_float(uint32_t i) {
  const uint32_t special[] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                              0x7fc00000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                              0x3f000000, 0xbf000000, 0x40200000, 0xc0200000};
  if (i % 64 < 16)
    return __uint_as_float(special[i % 64]);
  // Exponents from 2^-20 to 2^20.
  uint32_t bits = scatter(i);
  return __uint_as_float((bits & 0x807fffff) | (107 + bits % 41) << 23);
}

__device__ inline double any_double(uint32_t i) {
  const uint64_t special[] = {0x0000000000000000ull, 0x8000000000000000ull, 0x3ff0000000000000ull,
                              0xbff0000000000000ull, 0x7ff0000000000000ull, 0xfff0000000000000ull,
                              0x7ff8000000000000ull, 0x0000000000000001ull, 0x8000000000000001ull,
                              0x000fffffffffffffull, 0x0010000000000000ull, 0x7fefffffffffffffull,
                              0x3fe0000000000000ull, 0xbfe0000000000000ull, 0x4004000000000000ull,
                              0xc004000000000000ull};
  if (i % 64 < 16)
    return __longlong_as_double((long long)special[i % 64]);
  uint64_t bits = any64(i);
  return __longlong_as_double((long long)((bits & 0x800fffffffffffffull) | (1003 + bits % 41) << 52));
}

// From `low` to `high`, evenly.
__device__ inline float between(uint32_t i, float low, float high) { return low + (high - low) * float(i % 64) / 63; }
__device__ inline double between(uint32_t i, double low, double high) {
  return low + (high - low) * double(i % 64) / 63;
}

inline void run_here(const Case &one) {
  alarm(kPatience);
  printf("%s", one.name);
  fflush(stdout);
  Record record;
  one.run(record);
  printf(" %s", record.type.c_str());
  for (uint64_t value : record.values)
    printf(" %llx", (unsigned long long)value);
  printf("\n");
  fflush(stdout);
}

// Each case starts with a driver that nothing has touched, and takes nobody with it.
inline void run_apart(const Case &one) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    run_here(one);
    // Exit handlers belong to the case: what MGB records at exit is written by them.
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    printf(" failed signal %d\n", WTERMSIG(status));
    fflush(stdout);
  }
}

inline int run(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (const Case &one : cases())
      printf("%s\n", one.name);
    return 0;
  }
  for (int at = 1; at < argc; at++) {
    bool known = false;
    for (const Case &one : cases())
      known |= strcmp(one.name, argv[at]) == 0;
    if (!known) {
      fprintf(stderr, "%s: no case %s; --list names them\n", argv[0], argv[at]);
      return 2;
    }
  }
  for (const Case &one : cases()) {
    bool wanted = argc == 1;
    for (int at = 1; at < argc; at++)
      wanted |= strcmp(one.name, argv[at]) == 0;
    if (wanted)
      run_apart(one);
  }
  return 0;
}

} // namespace conformance

using conformance::any32;
using conformance::any64;
using conformance::any_double;
using conformance::any_float;
using conformance::between;
using conformance::linear;
using conformance::put;

int main(int argc, char **argv) { return conformance::run(argc, argv); }
