// Device pointers in arrays that are indexed at run time, and in structures that kernels get, are one task;
// the number of objects that a loop allocates is the number of its iterations.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefixes=CHECK,O0
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefixes=CHECK,O1
#include "cuda.h"

struct Pair {
  int *a;
  int *b;
  size_t more;
};
__global__ void work(int *x) {}
__global__ void step(int *from, int *to) {}
__global__ void both(Pair pair) {}

// CHECK: static in turns(unsigned long)
// CHECK: peak: n + 2 * n
void turns(size_t n) {
  int *x[2];
  cudaMalloc(&x[0], n);
  cudaMalloc(&x[1], 2 * n);
  int from = 0, to = 1;
  for (size_t i = 0; i < n; i++) {
    step<<<1, 1>>>(x[from], x[to]);
    int last = from;
    from = to;
    to = last;
  }
  cudaFree(x[0]);
  cudaFree(x[1]);
}

// Eight, which a loop frees before the next object comes.
// CHECK: static in eight(unsigned long)
// CHECK: peak: max(8 * n, 3 * n)
void eight(size_t n) {
  int *x[8], *y;
  for (int i = 0; i < 8; i++)
    cudaMalloc(&x[i], n);
  for (int i = 0; i < 8; i++)
    step<<<1, 1>>>(x[i], x[7 - i]);
  for (int i = 0; i < 8; i++)
    cudaFree(x[i]);
  cudaMalloc(&y, 3 * n);
  step<<<1, 1>>>(y, x[0]);
  cudaFree(y);
}

// Half of them are freed: which are left is not known.
// CHECK: static in half(unsigned long)
// CHECK: peak: 8 * n + 3 * n
void half(size_t n) {
  int *x[8], *y;
  for (int i = 0; i < 8; i++)
    cudaMalloc(&x[i], n);
  for (int i = 0; i < 8; i++)
    work<<<1, 1>>>(x[i]);
  for (int i = 0; i < 4; i++)
    cudaFree(x[i]);
  cudaMalloc(&y, 3 * n);
  step<<<1, 1>>>(y, x[7]);
  cudaFree(y);
}

// The loop copies as well, so the task begins before it; it counts by two.
// CHECK: static in counted(int, unsigned long)
// CHECK: peak: (0 < count ? (count + 1) / 2 : 0) * n
void counted(int count, size_t n) {
  int *x[64];
  for (int i = 0; i < count; i += 2) {
    cudaMalloc(&x[i], n);
    cudaMemset(x[i], 0, n);
  }
  work<<<1, 1>>>(x[count / 2]);
}

// Each iteration of the outer loop is a task of its own, where it is seen that the array is new in each: at -O0
// nothing says so.
// O0: lazy in renewed(int, unsigned long)
// O0: why allocated-in-loop
// O1: static in renewed(int, unsigned long)
// O1: peak: 4 * n
void renewed(int times, size_t n) {
  for (int turn = 0; turn < times; turn++) {
    int *x[4];
    for (int i = 0; i < 4; i++)
      cudaMalloc(&x[i], n);
    for (int i = 0; i < 4; i++)
      work<<<1, 1>>>(x[i]);
    for (int i = 0; i < 4; i++)
      cudaFree(x[i]);
  }
}

// CHECK: static in inside(unsigned long)
// CHECK: peak: n + 2 * n
// CHECK-NEXT: grid
void inside(size_t n) {
  Pair pair, copy;
  cudaMalloc(&pair.a, n);
  cudaMalloc(&pair.b, 2 * n);
  pair.more = n;
  both<<<1, 1>>>(pair);
  copy = pair;
  both<<<1, 1>>>(copy);
  cudaFree(copy.a);
  cudaFree(pair.b);
}

// CHECK: static in structures(unsigned long)
// CHECK: peak: 4 * n
void structures(size_t n) {
  Pair pairs[4];
  for (int i = 0; i < 4; i++) {
    cudaMalloc(&pairs[i].a, n);
    pairs[i].b = nullptr;
    pairs[i].more = i;
  }
  for (int i = 0; i < 4; i++)
    step<<<pairs[i].more, 1>>>(pairs[i].a, pairs[i].b);
}

// CHECK: lazy in bytes(int)
// CHECK: why address-escapes: a device pointer is read or written as bytes
void bytes(int n) {
  int *x[2];
  cudaMalloc(&x[0], n);
  size_t bits = ((size_t *)x)[n];
  step<<<1, 1>>>(x[0], x[bits & 1]);
}

// CHECK: lazy in host(int*, int)
// CHECK: why allocated-elsewhere: the pointer is the argument given
void host(int *given, int n) {
  Pair pair;
  cudaMalloc(&pair.a, n);
  pair.b = given;
  both<<<1, 1>>>(pair);
}

// Freed one by one in the loop that allocates, under a condition: how many there are at a time is not known.
// CHECK: lazy in window(int, unsigned long)
// CHECK: why allocated-in-loop
void window(int count, size_t n) {
  int *x[64];
  int *first;
  cudaMalloc(&first, n);
  for (int i = 0; i < count; i++) {
    cudaMalloc(&x[i], n);
    step<<<1, 1>>>(first, x[i]);
    if (i > 3)
      cudaFree(x[i - 3]);
  }
}
