// Calls through pointers and tables of virtual functions, recursion, and printing.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t | FileCheck %s
// CHECK-DAG: passed
#include "check.h"

// CHECK-DAG: thread 1: 7 text 1.500000 1099511627776
__global__ void print(int n) {
  if (threadIdx.x == 1)
    printf("thread %d: %d %s %f %lld\n", threadIdx.x, n, "text", 1.5, 1ll << 40);
}

__device__ __noinline__ int next(int a) { return a + 1; }
__device__ __noinline__ int twice(int a) { return a * 2 + (int)threadIdx.x; }
__device__ int (*functions[2])(int) = {next, twice};

// The pointer is called again after others have run on the same core.
__global__ void indirect(int *out) {
  int t = threadIdx.x;
  out[t] = functions[t & 1](10);
  __syncthreads();
  out[t] += functions[t & 1](100);
}

struct Base {
  __device__ virtual int value(int x) const { return x; }
};
struct Derived : Base {
  int more;
  __device__ Derived(int more) : more(more) {}
  __device__ int value(int x) const override { return x + more; }
};

__global__ void dispatch(int *out) {
  Derived derived(7);
  Base base;
  const Base *chosen = out[0] ? &derived : &base;
  out[1] = chosen->value(3);
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursion(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

int main() {
  print<<<1, 2>>>(7);
  {
    Array<int> out(4);
    indirect<<<1, 4>>>(out.data);
    EXPECT(out.get() == (std::vector<int>{11 + 101, 21 + 201, 11 + 101, 23 + 203}));
  }
  for (int derived = 0; derived < 2; derived++) {
    Array<int> out(std::vector<int>{derived, 0});
    dispatch<<<1, 1>>>(out.data);
    EXPECT(out.get()[1] == (derived ? 10 : 3));
  }
  {
    Array<int> out(20);
    recursion<<<1, 20>>>(out.data);
    EXPECT(out.get()[19] == 4181);
  }
  return finish();
}
