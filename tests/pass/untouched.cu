// A module without CUDA is left unchanged, and so is every function without GPU ops.
// RUN: %ir-O0 -x c++ -DNO_CUDA %s -o %t.plain.ll
// RUN: opt -S %t.plain.ll -o %t.in.ll
// RUN: %opt -passes=mgb %t.plain.ll -o %t.out.ll
// RUN: cmp %t.in.ll %t.out.ll
// RUN: opt %t.plain.ll -o %t.in.bc
// RUN: opt -load-pass-plugin=%plugin -passes=mgb %t.plain.ll -o %t.out.bc
// RUN: cmp %t.in.bc %t.out.bc
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
extern "C" void *dlopen(const char *, int);
int helper(int);

// CHECK: ; Function Attrs: {{.*}}optnone
// CHECK-NEXT: define {{.*}} @_Z5plainPi
// CHECK: alloca ptr
// CHECK: alloca i32
int plain(int *x) {
  int sum = 0;
  for (int i = 0; i < 10; i++)
    sum += helper(x[i]);
  return sum;
}

// A library that is loaded later may use CUDA: that is the matter of programs that do themselves.
void *plugin() { return dlopen("plugin.so", 1); }

#ifndef NO_CUDA
#include "cuda.h"
__global__ void work(int *x) {}
// CHECK-LABEL: define {{.*}} @_Z4usedv
// CHECK: mgb_task_begin
void used() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
#endif
