// Atomic operations of every kind and scope.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

__global__ void all(unsigned *u, int *i, unsigned long long *l, double *d, float *f) {
  int t = threadIdx.x;
  atomicInc(u, 9u);
  atomicDec(u + 1, 9u);
  atomicOr(u + 2, 1u << t);
  atomicAnd(u + 3, ~(1u << t));
  atomicXor(u + 4, 3u);
  atomicMin(i, -t);
  atomicMax(i + 1, t);
  atomicCAS(i + 2, t, t + 1);
  atomicExch(i + 3, 9);
  atomicAdd_block(i + 4, 2);
  atomicMax_system(i + 5, t);
  atomicCAS_block(i + 6, 0, 5);
  atomicSub(i + 7, 2);
  atomicAdd(l, 2ull);
  atomicMax(l + 1, 1ull << t);
  atomicAdd(d, .5);
  atomicAdd(f, .25f);
  atomicExch(f + 1, 3.f);
  __threadfence();
}

int main() {
  Array<unsigned> u(std::vector<unsigned>{0, 0, 0, ~0u, 0});
  Array<int> i(8);
  Array<unsigned long long> l(2);
  Array<double> d(1);
  Array<float> f(2);
  all<<<1, 32>>>(u.data, i.data, l.data, d.data, f.data);
  EXPECT(u.get() == (std::vector<unsigned>{2, 8, ~0u, 0, 0}));
  EXPECT(i.get() == (std::vector<int>{-31, 31, 32, 9, 64, 31, 5, -64}));
  EXPECT(l.get()[0] == 64 && l.get()[1] == 1ull << 31);
  EXPECT(d.get()[0] == 16);
  EXPECT(f.get()[0] == 8 && f.get()[1] == 3);
  // Many blocks, on several cores: nothing may be lost.
  Array<unsigned long long> many(2);
  all<<<1000, 32>>>(u.data, i.data, many.data, d.data, f.data);
  EXPECT(many.get()[0] == 64000);
  EXPECT(d.get()[0] == 16016);
  return finish();
}
