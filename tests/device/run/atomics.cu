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

// Numbers of 128 bits: a counter of two halves that must stay alike.
__global__ void wide(unsigned __int128 *counter, unsigned __int128 *swapped) {
  const unsigned __int128 one = (unsigned __int128)1 << 64 | 1;
  unsigned __int128 seen = *counter, was;
  for (;;) {
    asm volatile("{ .reg .b128 old, from, to; mov.b128 from, {%3, %4}; mov.b128 to, {%5, %6};\n"
                 "atom.cas.b128 old, [%2], from, to; mov.b128 {%0, %1}, old; }"
                 : "=l"(((unsigned long long *)&was)[0]), "=l"(((unsigned long long *)&was)[1])
                 : "l"(counter), "l"((unsigned long long)seen), "l"((unsigned long long)(seen >> 64)),
                   "l"((unsigned long long)(seen + one)), "l"((unsigned long long)((seen + one) >> 64))
                 : "memory");
    if (was == seen)
      break;
    seen = was;
  }
  // By the compiler's own operations too.
  unsigned __int128 expected = __atomic_load_n(swapped, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(swapped, &expected, expected + one, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
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
  Array<unsigned __int128> halves(2);
  wide<<<200, 32>>>(halves.data, halves.data + 1);
  for (unsigned __int128 sum : halves.get())
    EXPECT(sum == ((unsigned __int128)6400 << 64 | 6400));
  return finish();
}
