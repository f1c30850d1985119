// Control flow, calls, the device's heap, and what ends a kernel.
#include "conformance.h"

#include <cassert>

__device__ unsigned plus(unsigned a, unsigned b) { return a + b; }
__device__ unsigned times(unsigned a, unsigned b) { return a * b; }
__device__ unsigned minus(unsigned a, unsigned b) { return a - b; }
__device__ unsigned (*const operations[3])(unsigned, unsigned) = {plus, times, minus};
CASE(function_pointers, unsigned) { out[threadIdx.x] = operations[threadIdx.x % 3](threadIdx.x, 7); }

struct Animal {
  __device__ virtual unsigned legs() const { return 0; }
  __device__ virtual ~Animal() {}
};
struct Bird : Animal {
  __device__ unsigned legs() const override { return 2; }
};
struct Insect : Animal {
  unsigned extra;
  __device__ explicit Insect(unsigned e) : extra(e) {}
  __device__ unsigned legs() const override { return 6 + extra; }
};
CASE(virtual_functions, unsigned) {
  Bird bird;
  Insect insect(threadIdx.x);
  Animal *animals[2] = {&bird, &insect};
  out[threadIdx.x] = animals[threadIdx.x % 2]->legs();
}

__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
CASE(recursion, unsigned) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

CASE(switch_and_goto, unsigned) {
  unsigned i = threadIdx.x, steps = 0, value = i;
again:
  switch (value % 7) {
  case 0:
    value += 3;
    break;
  case 1:
  case 2:
    value *= 2;
    [[fallthrough]];
  case 5:
    value += 1;
    break;
  default:
    value += 4;
  }
  if (++steps < 5)
    goto again;
  out[i] = value;
}

CASE(loops_of_different_length, unsigned) {
  unsigned n = threadIdx.x * 37 + 1, steps = 0;
  while (n != 1 && steps < 1000) {
    n = n % 2 ? 3 * n + 1 : n / 2;
    steps++;
  }
  out[threadIdx.x] = steps;
}

CASE(lambdas, unsigned) {
  unsigned base = threadIdx.x;
  auto add = [=](unsigned x) { return base + x; };
  auto twice = [](auto f, unsigned x) { return f(f(x)); };
  out[threadIdx.x] = twice(add, 3);
}

CASE(device_heap, unsigned) {
  unsigned i = threadIdx.x, n = 1 + i % 9;
  unsigned *mine = static_cast<unsigned *>(malloc(n * sizeof(unsigned)));
  if (!mine)
    return;
  for (unsigned at = 0; at < n; at++)
    mine[at] = i * at;
  __syncthreads();
  unsigned sum = 0;
  for (unsigned at = 0; at < n; at++)
    sum += mine[at];
  free(mine);
  out[i] = sum + 1;
}

struct Node {
  unsigned value;
  Node *next;
};
__device__ Node *list;
__global__ void build_list() {
  for (unsigned at = 0; at < 20; at++)
    list = new Node{at * at, list};
}
__global__ void walk_list(unsigned *out) {
  if (threadIdx.x != 0)
    return;
  unsigned sum = 0, count = 0;
  while (list) {
    Node *next = list->next;
    sum = sum * 3 + list->value;
    count++;
    delete list;
    list = next;
  }
  out[0] = sum;
  out[1] = count;
}
HOST_CASE(device_heap_outlives_kernels) {
  build_list<<<1, 1>>>();
  conformance::run_kernel<unsigned>(record, walk_list, 1, 2, 0);
}

__global__ void exhausting_kernel(unsigned *out) {
  // Far more than the heap has. The pointer is stored, or the compiler would leave the call out.
  void *volatile pointer = malloc(size_t(1) << 40);
  out[threadIdx.x] = pointer == nullptr;
}
HOST_CASE(device_heap_exhausted) { conformance::run_kernel<unsigned>(record, exhausting_kernel, 1, 4, 0); }

CASE(exceptions_of_arithmetic_are_silent, float) {
  volatile float zero = 0;
  out[threadIdx.x] = 1.0f / zero + float(threadIdx.x);
}

template <class Kernel> static void ended_by(conformance::Record &record, Kernel kernel) {
  kernel<<<1, 32>>>();
  put(record, int(cudaGetLastError()));
  put(record, int(cudaDeviceSynchronize()));
  put(record, int(cudaGetLastError()));
  void *pointer;
  put(record, int(cudaMalloc(&pointer, 100)));
}
__global__ void trapping_kernel() {
  if (threadIdx.x == 3)
    __trap();
}
HOST_CASE(trap) { ended_by(record, trapping_kernel); }
__global__ void asserting_kernel() { assert(threadIdx.x != 5); }
HOST_CASE(assertion) {
  // What it prints has a path in it.
  fflush(stdout);
  FILE *nothing = freopen("/dev/null", "w", stderr);
  (void)nothing;
  ended_by(record, asserting_kernel);
}
__global__ void faulting_kernel() { *reinterpret_cast<volatile unsigned *>(16 + threadIdx.x * 4) = 1; }
HOST_CASE(illegal_address) { ended_by(record, faulting_kernel); }
__device__ unsigned misaligned_words[4];
__global__ void misaligned_kernel() {
  *reinterpret_cast<volatile unsigned *>(reinterpret_cast<char *>(misaligned_words) + 1) = 1;
}
HOST_CASE(misaligned_address) { ended_by(record, misaligned_kernel); }

__global__ void printing_kernel() {
  if (threadIdx.x == 0)
    printf("|%d %u %5.2f %s %c %llx %%|", -5, 7u, 2.5, "text", 'c', 0x123456789abcull);
}
HOST_CASE(device_printf) {
  // Through a file, to read what came out.
  fflush(stdout);
  char name[] = "/tmp/conformance-XXXXXX";
  int file = mkstemp(name), kept = dup(1);
  dup2(file, 1);
  printing_kernel<<<1, 32>>>();
  cudaDeviceSynchronize();
  fflush(stdout);
  dup2(kept, 1);
  char text[200] = {};
  ssize_t length = pread(file, text, sizeof text - 1, 0);
  unlink(name);
  put(record, int(length));
  for (ssize_t at = 0; at < length; at++)
    put(record, text[at]);
}
