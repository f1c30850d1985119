// What single calls of the runtime cost. The trial overhead.py runs it plain and with MGB beside each other.
//
//   overhead MEASUREMENT...    prints "MEASUREMENT NANOSECONDS" a line, for the whole loop named below
//
// Each measurement does its loop once before it is timed, smaller, so that contexts, modules and pools are there.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));                        \
      exit(2);                                                                                                         \
    }                                                                                                                  \
  } while (0)

constexpr size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

__global__ void nothing() {}

__global__ void touch(unsigned char *bytes) { bytes[0] += 1; }

__global__ void touch_all(unsigned char *const *objects, size_t count) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    objects[i][0] = 1;
}

__global__ void increment(unsigned *words, size_t count) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    words[i]++;
}

using Clock = std::chrono::steady_clock;

static long long since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// Empty launches, then a wait for all.
static void launches(size_t count) {
  for (size_t i = 0; i < count; i++)
    nothing<<<1, 32>>>();
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

// A copy of 4 KiB from pageable memory and a launch on it, in turn.
static void alternate(size_t count) {
  static unsigned char host[4 * KiB];
  unsigned char *device;
  CHECK(cudaMalloc(&device, sizeof host));
  for (size_t i = 0; i < count; i++) {
    host[0] = (unsigned char)i;
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    touch<<<1, 32>>>(device);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(device));
}

// Objects that come and go at once, as a program's helpers have them.
static void pairs(size_t count) {
  for (size_t i = 0; i < count; i++) {
    void *device;
    CHECK(cudaMalloc(&device, MiB));
    CHECK(cudaFree(device));
  }
}

// The same, with work on each.
static void used_pairs(size_t count) {
  for (size_t i = 0; i < count; i++) {
    unsigned char *device;
    CHECK(cudaMalloc(&device, MiB));
    touch<<<1, 32>>>(device);
    CHECK(cudaFree(device));
  }
}

// `count` objects of `bytes`, all live, all reached by one kernel, freed in another order.
static void live(size_t count, size_t bytes) {
  std::vector<unsigned char *> objects(count);
  for (size_t i = 0; i < count; i++)
    CHECK(cudaMalloc(&objects[i], bytes));
  unsigned char **list;
  CHECK(cudaMalloc(&list, count * sizeof *list));
  CHECK(cudaMemcpy(list, objects.data(), count * sizeof *list, cudaMemcpyHostToDevice));
  touch_all<<<unsigned((count + 255) / 256), 256>>>(list, count);
  CHECK(cudaDeviceSynchronize());
  for (size_t i = 0; i < count; i += 2)
    CHECK(cudaFree(objects[i]));
  for (size_t i = 1; i < count; i += 2)
    CHECK(cudaFree(objects[i]));
  CHECK(cudaFree(list));
}

struct Copy {
  unsigned char *host, *device;
  bool to_device;
};

static void copy(Copy how, size_t bytes) {
  CHECK(cudaMemcpy(how.to_device ? how.device : how.host, how.to_device ? how.host : how.device, bytes,
                   how.to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost));
}

// One copy of 1 GiB, the best of three: the machine's other work only ever adds.
static long long copies(bool pinned, bool to_device) {
  Copy how = {nullptr, nullptr, to_device};
  CHECK(cudaMalloc(&how.device, GiB));
  if (pinned)
    CHECK(cudaMallocHost(&how.host, GiB));
  else
    how.host = static_cast<unsigned char *>(aligned_alloc(4096, GiB));
  memset(how.host, 1, GiB);
  copy(how, GiB);
  long long best = INT64_MAX;
  for (int i = 0; i < 3; i++) {
    auto start = Clock::now();
    copy(how, GiB);
    long long took = since(start);
    best = took < best ? took : best;
  }
  if (pinned)
    CHECK(cudaFreeHost(how.host));
  else
    free(how.host);
  CHECK(cudaFree(how.device));
  return best;
}

// What a small program does in its life: 1 GiB there, worked on, and back. Its time is the process's.
static void whole() {
  std::vector<unsigned> host(GiB / sizeof(unsigned), 1);
  unsigned *device;
  CHECK(cudaMalloc(&device, GiB));
  CHECK(cudaMemcpy(device, host.data(), GiB, cudaMemcpyHostToDevice));
  increment<<<1024, 256>>>(device, host.size());
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host.data(), device, GiB, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device));
  for (size_t i = 0; i < host.size(); i += 4099)
    if (host[i] != 2) {
      fprintf(stderr, "whole: word %zu is %u, not 2\n", i, host[i]);
      exit(1);
    }
}

template <typename Loop> static long long timed(size_t count, Loop loop) {
  loop(count / 100 + 1);
  auto start = Clock::now();
  loop(count);
  return since(start);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "whole") == 0) {
    whole();
    puts("whole PASS");
    return 0;
  }
  // A context is there before anything is timed; an object as well, so that no measurement is the first.
  unsigned char *first;
  CHECK(cudaMalloc(&first, 1));
  touch<<<1, 32>>>(first);
  CHECK(cudaDeviceSynchronize());
  for (int i = 1; i < argc; i++) {
    const char *what = argv[i];
    auto is = [what](const char *name) { return strcmp(what, name) == 0; };
    long long took;
    if (is("launches"))
      took = timed(100000, launches);
    else if (is("alternate"))
      took = timed(100000, alternate);
    else if (is("pairs"))
      took = timed(10000, pairs);
    else if (is("used-pairs"))
      took = timed(10000, used_pairs);
    else if (is("large"))
      took = timed(50, [](size_t count) { live(count, 64 * MiB); });
    else if (is("small"))
      took = timed(100000, [](size_t count) { live(count, 300); });
    else if (is("pageable-to-device") || is("pageable-to-host"))
      took = copies(false, is("pageable-to-device"));
    else if (is("pinned-to-device") || is("pinned-to-host"))
      took = copies(true, is("pinned-to-device"));
    else {
      fprintf(stderr, "overhead: no measurement is called %s\n", what);
      return 2;
    }
    printf("%s %lld\n", what, took);
  }
  return 0;
}
