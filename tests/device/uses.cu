// What device code does to device variables decides which launches share a GPU, and which copies belong to
// their tasks. A variable that nothing writes is the same on each GPU; one that a kernel or the host writes
// is not, nor is one that the host's module does not show.
// RUN: %host-O0 -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %host-O2 -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

extern "C" {
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
}

__constant__ int table[3] = {1, 2, 3};
__constant__ int factor[2];
__device__ int counter;
static __device__ int hidden;

__device__ void add(int *to) { *to += 1; }
__device__ int fetch(const int *from, int at) { return from[at]; }

// As clang declares threadIdx and its like.
struct Index {
  __device__ int get() const { return threadIdx_x; }
};
extern const __device__ __attribute__((weak)) Index thread_index;

__global__ void plain(int *x) { *x = thread_index.get(); }
__global__ void reads_table(int *x) { *x = fetch(table, *x); }
__global__ void reads_factor(int *x) { *x = fetch(factor, 1); }
__global__ void counts(int *x) { add(&counter); }
__global__ void counts_hidden(int *x) { *x = hidden++; }

#define TASK(name, ...)                                                                                                \
  void name(int n) {                                                                                                   \
    int *x, host[2] = {n, n};                                                                                          \
    cudaMalloc((void **)&x, 64);                                                                                       \
    __VA_ARGS__;                                                                                                       \
    cudaFree(x);                                                                                                       \
  }

// CHECK: task 1 static in untouched(int)
// CHECK-NOT: anchored
TASK(untouched, (plain<<<1, 1>>>(x)))

// CHECK: task 2 static in never_written(int)
// CHECK-NOT: anchored
TASK(never_written, (reads_table<<<1, 1>>>(x)))

// CHECK: task 3 static in by_host(int)
// CHECK: object 1 {{.*}}: 64{{$}}
// CHECK: object 2 factor: 8 variable
// CHECK-DAG: op cudaMemcpyToSymbol [2]
// CHECK-DAG: op launch reads_factor(int*) [1,2]
// CHECK: peak: 64
// CHECK: anchored: reads_factor(int*) uses the device variable factor
TASK(by_host, (cudaMemcpyToSymbol(factor, host, 8, 0, 1), reads_factor<<<1, 1>>>(x)))

// CHECK: task 4 static in by_kernel(int)
// CHECK: object 2 counter: 4 variable
// CHECK: anchored: counts(int*) uses the device variable counter
TASK(by_kernel, (counts<<<1, 1>>>(x), cudaMemcpyFromSymbol(host, &counter, 4, 0, 2)))

// CHECK: task 5 static in not_shown(int)
// CHECK: object 2 hidden: 4 variable
// CHECK: anchored: counts_hidden(int*) uses the device variable hidden
TASK(not_shown, (counts_hidden<<<1, 1>>>(x)))

// Two tasks that share a variable which is written are one.
// CHECK: task 6 static in merged(int)
// CHECK: peak: 64 + 4 * n
void merged(int n) {
  int *x, *y;
  cudaMalloc((void **)&x, 64);
  cudaMalloc((void **)&y, 4 * (size_t)n);
  counts<<<1, 1>>>(x);
  counts<<<1, 1>>>(y);
  cudaFree(x);
  cudaFree(y);
}

// The copy comes before the size is known: it stays apart, and the launch is static all the same.
size_t ask(int);
// CHECK: task 7 lazy in apart(int)
// CHECK: op cudaMemcpyToSymbol
// CHECK: why anchored: cudaMemcpyToSymbol accesses a device variable
// CHECK: task 8 static in apart(int)
// CHECK: op launch reads_factor(int*)
void apart(int n) {
  int *x, host[2] = {n, n};
  cudaMemcpyToSymbol(factor, host, 8, 0, 1);
  cudaMalloc((void **)&x, ask(n));
  reads_factor<<<1, 1>>>(x);
  cudaFree(x);
}

// A copy alone is bound at run time.
// CHECK: task 9 lazy in alone(int)
void alone(int n) { cudaMemcpyToSymbol(factor, &n, 4, 0, 1); }
