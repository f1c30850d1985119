// Needs that are higher than what the program allocates: a need is advice, and the program runs as natively.
//
//   advice CASE MIB    the GPU has so many MiB

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t error_ = (call);                                                                                       \
    if (error_ != cudaSuccess) {                                                                                       \
      printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_));                                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)
#define EXPECT(is)                                                                                                     \
  do {                                                                                                                 \
    if (!(is)) {                                                                                                       \
      printf("line %d: not so: %s\n", __LINE__, #is);                                                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

constexpr size_t kMiB = 1 << 20;

__global__ void put(int *at, int value) { at[threadIdx.x] = value; }
__global__ void add(const int *from, int *to) { to[threadIdx.x] += from[threadIdx.x]; }

static int read(const int *at) {
  int value = 0;
  OK(cudaMemcpy(&value, at + 31, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

// The options of a run, in memory that starts with any bytes; only what the mode uses is set.
struct Options {
  int mode, count;
  size_t bytes;
};
__attribute__((noinline)) static void choose(Options *options, int mode, int count) {
  std::memset(options, 0xa5, sizeof *options);
  options->mode = mode;
  options->count = count;
}

// A large object in a branch that is not taken.
static void branch(size_t mib, bool taken) {
  int *at, *large;
  OK(cudaMalloc(&at, kMiB));
  put<<<1, 32>>>(at, 5);
  if (taken) {
    OK(cudaMalloc(&large, 3 * mib * kMiB));
    add<<<1, 32>>>(at, large);
    OK(cudaFree(large));
  }
  EXPECT(read(at) == 5);
  OK(cudaFree(at));
}

// A size that is never set, and one of -1.
static void sizes(int count) {
  Options options;
  choose(&options, 0, count);
  int *at, *other;
  OK(cudaMalloc(&at, kMiB));
  put<<<1, 32>>>(at, 5);
  if (options.mode) {
    OK(cudaMalloc(&other, options.bytes));
    add<<<1, 32>>>(at, other);
    OK(cudaFree(other));
  }
  if (options.count > 0) {
    OK(cudaMalloc(&other, options.count * sizeof(int)));
    add<<<1, 32>>>(at, other);
    OK(cudaFree(other));
  }
  EXPECT(read(at) == 5);
  OK(cudaFree(at));
}

// More than the GPU has, and then less.
static void fallback(size_t mib) {
  int *at = nullptr;
  size_t bytes = 4 * mib * kMiB;
  while (cudaMalloc(&at, bytes) != cudaSuccess) {
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    bytes /= 2;
    EXPECT(bytes >= kMiB);
  }
  EXPECT(bytes == mib / 2 * kMiB);
  put<<<1, 32>>>(at, 5);
  EXPECT(read(at) == 5);
  OK(cudaFree(at));
}

// As much as there is.
static void probing(size_t mib) {
  constexpr int kMost = 64;
  int *all[kMost], count = 0;
  const size_t bytes = mib / 8 * kMiB;
  while (count < kMost && cudaMalloc(&all[count], bytes) == cudaSuccess) count++;
  EXPECT(count >= 4 && count <= 8);
  if (count < kMost) EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  for (int i = 0; i < count; i++) put<<<1, 32>>>(all[i], i);
  for (int i = 1; i < count; i++) add<<<1, 32>>>(all[i], all[0]);
  EXPECT(read(all[0]) == count * (count - 1) / 2);
  for (int i = 0; i < count; i++) OK(cudaFree(all[i]));
}

// A loop of thousand turns that breaks off.
static void breaking(int last) {
  int *all[1000], used = 0;
  for (int i = 0; i < 1000; i++) {
    OK(cudaMalloc(&all[i], kMiB));
    used++;
    put<<<1, 32>>>(all[i], i);
    if (read(all[i]) == last) break;
  }
  EXPECT(used == last + 1);
  for (int i = 0; i < used; i++) OK(cudaFree(all[i]));
}

// Many objects, one after the other, and never two of them at once.
template <int N> __attribute__((always_inline)) static inline void temporary(int *sum, size_t bytes) {
  int *at;
  OK(cudaMalloc(&at, bytes));
  put<<<1, 32>>>(at, N);
  add<<<1, 32>>>(at, sum);
  OK(cudaFree(at));
  if constexpr (N > 1) temporary<N - 1>(sum, bytes);
}
static void temporaries(size_t mib) {
  int *sum;
  OK(cudaMalloc(&sum, kMiB));
  put<<<1, 32>>>(sum, 0);
  temporary<40>(sum, mib / 8 * kMiB);
  EXPECT(read(sum) == 40 * 41 / 2);
  OK(cudaFree(sum));
}

// Objects much smaller than what the driver maps at a time.
static void small() {
  constexpr int kCount = 1000;
  int *all[kCount];
  for (int i = 0; i < kCount; i++) OK(cudaMalloc(&all[i], 256));
  for (int i = 0; i < kCount; i++) put<<<1, 32>>>(all[i], i);
  for (int i = 0; i < kCount; i++) EXPECT(read(all[i]) == i);
  for (int i = 0; i < kCount; i++) OK(cudaFree(all[i]));
}

// What is refused does not count: it leaves the room to what comes.
static void refused(size_t mib) {
  int *first, *second, *third;
  OK(cudaMalloc(&first, mib / 2 * kMiB));
  EXPECT(cudaMalloc(&second, 2 * mib * kMiB) == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  OK(cudaMalloc(&third, mib / 4 * kMiB));
  put<<<1, 32>>>(first, 2);
  put<<<1, 32>>>(third, 3);
  add<<<1, 32>>>(first, third);
  EXPECT(read(third) == 5);
  OK(cudaFree(first));
  OK(cudaFree(third));
}

int main(int, char **arguments) {
  const std::string is = arguments[1];
  const size_t mib = std::strtoul(arguments[2], nullptr, 10);
  if (is == "branch") branch(mib, mib == 1);
  if (is == "sizes") sizes(-1);
  if (is == "fallback") fallback(mib);
  if (is == "probing") probing(mib);
  if (is == "breaking") breaking(5);
  if (is == "temporaries") temporaries(mib);
  if (is == "small") small();
  if (is == "refused") refused(mib);
  printf("PASS\n");
}
