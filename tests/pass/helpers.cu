// Functions that work on memory of their caller are inlined where it is allocated, with their loops, so that
// their ops join its task. One that other files may call is kept, lazy, and the report says that only they
// run it.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
#include "cuda.h"

__global__ void work(int *x) {}
__global__ void more(int *x, int *y) {}

// CHECK: define {{.*}}_Z6repeatPiii
// CHECK-NOT: @mgb_task_begin
// REPORT: task 1 lazy in repeat(int*, int, int)
// REPORT: for others
void repeat(int *x, int n, int times) {
  for (int i = 0; i < times; i++)
    work<<<n, 32>>>(x);
  cudaDeviceSynchronize();
}

// A helper of helpers, which is left nowhere.
// CHECK-NOT: define {{.*}}_ZL4both
static void both(int *x, int *y, int n, int times) {
  repeat(x, n, times);
  repeat(y, n, times);
  for (int i = 0; i < times; i++)
    more<<<n, 64>>>(x, y);
}

// CHECK: define {{.*}}_Z6allocdii
// CHECK: @mgb_task_begin
// CHECK: call {{.*}}@mgb_task_end
// REPORT: task 2 static in allocd(int, int)
// REPORT: peak: 4 * n + 8 * n
void allocd(int n, int times) {
  int *x, *y;
  cudaMalloc(&x, 4 * (size_t)n);
  cudaMalloc(&y, 8 * (size_t)n);
  both(x, y, n, times);
  cudaFree(x);
  cudaFree(y);
}

// A function that calls itself, directly or not, is never inlined.
void pong(int *x, int n);
// REPORT: task 3 lazy in ping(int*, int)
void ping(int *x, int n) {
  work<<<n, 32>>>(x);
  if (n)
    pong(x, n - 1);
}
// REPORT: task 4 lazy in pong(int*, int)
void pong(int *x, int n) {
  work<<<n, 32>>>(x);
  ping(x, n);
}

// Called through a pointer as well, it stays as it is there.
// REPORT: task 5 lazy in pointed(int*, int)
// REPORT-NOT: for others
static void pointed(int *x, int n) {
  for (int i = 0; i < n; i++)
    work<<<n, 32>>>(x);
}
void (*pointer)(int *, int) = pointed;

struct Guard {
  ~Guard() { printf("left\n"); }
};

// Early exits and the cleanup for exceptions are inlined with the helper.
static bool careful(int *x, int n) {
  Guard guard;
  for (int i = 0; i < n; i++) {
    if (cudaGetLastError() != cudaSuccess)
      return false;
    work<<<n, 32>>>(x);
  }
  return true;
}

// REPORT: task 6 static in unwinding(int)
// REPORT: op launch work(int*) [1] :[[@LINE-20]]
// REPORT: op launch work(int*) [1] :[[@LINE-7]]
// REPORT: peak: 4 * n
void unwinding(int n) {
  int *x;
  Guard guard;
  cudaMalloc(&x, 4 * (size_t)n);
  pointed(x, n);
  if (!careful(x, n))
    return;
  cudaFree(x);
}

// Code for another CPU stays in a function of its own.
__attribute__((target("avx2"))) static void wide(int *x, int n) {
  for (int i = 0; i < n; i++)
    work<<<n, 32>>>(x);
}

// REPORT: lazy in other_cpu()
// REPORT: why address-escapes: the pointer goes to wide(int*, int)
void other_cpu() {
  int *x;
  cudaMalloc(&x, 64);
  wide(x, 3);
  cudaFree(x);
}

// A helper that is given what to run, as benchmarks have it, and keeps memory of its own meanwhile.
template <class F, class... A> float timed(int times, F function, A &&...arguments) {
  int *flush;
  cudaMalloc(&flush, 1024);
  for (int i = 0; i < times; i++) {
    cudaMemset(flush, 0, 1024);
    function(static_cast<A &&>(arguments)...);
  }
  cudaFree(flush);
  return 0;
}
static void twice_as_large(int *x, int *y, int n) {
  work<<<n, 32>>>(x);
  work<<<n, 64>>>(y);
}
// REPORT: static in by_name(int)
void by_name(int n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMalloc(&y, 64);
  timed(10, twice_as_large, x, y, n);
  cudaFree(x);
  cudaFree(y);
}
