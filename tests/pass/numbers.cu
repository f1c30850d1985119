// Device pointers that become numbers: in structures whose type does not show them, by copies, by arithmetic. A
// kernel that is given such a number is given the object, and no argument of it says so: their tasks are lazy.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

typedef unsigned long Word;
struct Pointers {
  int *first;
  long count;
  int *second;
};
struct Numbers {
  Word words[3];
};
union Either {
  Word words[3];
  int *pointer;
};
extern "C" int sprintf(char *, const char *, ...);
extern "C" int fprintf(void *, const char *, ...);
extern "C" void *stderr;
void take(const char *);

__global__ void work(int *x) {}
__global__ void numbers(Numbers n) {}
__global__ void either(Either e) {}
__global__ void pointers(Pointers p) {}
__global__ void word(Word w) {}
__global__ void away(char *x, long by) {}

#define MAKE                                                                                                           \
  int *x;                                                                                                              \
  cudaMalloc(&x, 64);                                                                                                  \
  work<<<1, 1>>>(x)

// CHECK: lazy in in_union()
// CHECK: why address-escapes: a kernel is given a device pointer in bytes whose type does not show it (:[[@LINE+5]])
void in_union() {
  MAKE;
  Either e;
  e.pointer = x;
  either<<<1, 1>>>(e);
  cudaFree(x);
}

// CHECK: lazy in copied_to_numbers()
// CHECK: why address-escapes: a kernel is given a device pointer in bytes whose type does not show it
void copied_to_numbers() {
  MAKE;
  Pointers p{nullptr, 1, x};
  Numbers n;
  __builtin_memcpy(&n, &p, sizeof n);
  numbers<<<1, 1>>>(n);
  cudaFree(x);
}

// By way of bytes, and not from their begin.
// CHECK: lazy in copied_twice()
// CHECK: why address-escapes
void copied_twice() {
  MAKE;
  Pointers p{nullptr, 1, x};
  char bytes[48];
  Word w;
  __builtin_memcpy(bytes + 8, &p, sizeof p);
  __builtin_memcpy(&w, bytes + 24, sizeof w);
  word<<<1, 1>>>(w);
  cudaFree(x);
}

// CHECK: lazy in from_array(int)
// CHECK: why address-escapes: a device pointer is read or written as bytes
void from_array(int n) {
  MAKE;
  int *all[4];
  Word words[4];
  for (int i = 0; i < n; i++) all[i] = x;
  __builtin_memcpy(words, all, sizeof words);
  word<<<1, 1>>>(words[n]);
  cudaFree(x);
}

// CHECK: lazy in by_other_type()
// CHECK: is given arguments of other types than it takes
void by_other_type() {
  MAKE;
  void *arguments[] = {&x};
  cudaLaunchKernel(word, 1, 1, arguments);
  cudaFree(x);
}

// CHECK: lazy in distance()
// CHECK: why address-escapes: the distance between pointers to two objects is computed
void distance() {
  MAKE;
  char *y;
  cudaMalloc(&y, 64);
  away<<<1, 1>>>(y, (char *)x - y);
  cudaFree(x);
  cudaFree(y);
}

// CHECK: lazy in quarters()
// CHECK: why address-escapes: the pointer is converted to an integer
void quarters() {
  MAKE;
  word<<<1, 1>>>((Word)x & 0xffff);
  word<<<1, 1>>>((Word)x >> 16 & 0xffff);
  cudaFree(x);
}

// CHECK: lazy in printed()
// CHECK: why address-escapes: the pointer goes to sprintf
void printed() {
  MAKE;
  char text[32];
  sprintf(text, "%p", (void *)x);
  take(text);
  cudaFree(x);
}

// What stays a pointer, or does not lead back to one.
// CHECK: static in still_pointers()
void still_pointers() {
  MAKE;
  Pointers p{x, 1, x}, q = p, r;
  __builtin_memcpy(&r, &q, sizeof r);
  pointers<<<1, 1>>>(r);
  fprintf(stderr, "%p\n", (void *)x);
  int *end = x + 16;
  away<<<1, 1>>>((char *)x, end - x);
  word<<<1, 1>>>(r.count);
  if ((Word)x % 256 == 0 && ((Word)x & 15) == 0) word<<<1, 1>>>((Word)x & 15);
  cudaFree(x);
}

// CHECK: static in launched_directly(long)
void launched_directly(long n) {
  MAKE;
  Pointers p{x, n, nullptr};
  void *arguments[] = {&p};
  cudaLaunchKernel(pointers, 1, 1, arguments);
  void *others[] = {&x, &n};
  cudaLaunchKernel(away, 1, 1, others);
  cudaFree(x);
}
