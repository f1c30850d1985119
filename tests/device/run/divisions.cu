// Divisions that end a process on the host end no kernel: by zero all bits of quotient and remainder are set, and
// the least number divided by minus one is itself. Of 64 bits, those of the low half are set where the dividend has
// no others. This is what an H100 answers.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: passed
#include "check.h"
#include <climits>

template <class T> __global__ void divide(T *out, const T *dividends, const T *divisors, int n) {
  for (int i = 0; i < n; i++) {
    out[2 * i] = dividends[i] / divisors[i];
    out[2 * i + 1] = dividends[i] % divisors[i];
  }
}

// PTX's own instructions.
__global__ void by_ptx(unsigned *out, const unsigned *dividends, const unsigned *divisors) {
  unsigned i = threadIdx.x, quotient, remainder;
  asm("div.u32 %0, %1, %2;" : "=r"(quotient) : "r"(dividends[i]), "r"(divisors[i]));
  asm("rem.u32 %0, %1, %2;" : "=r"(remainder) : "r"(dividends[i]), "r"(divisors[i]));
  out[2 * i] = quotient;
  out[2 * i + 1] = remainder;
}

// The quotient counts only where the divisor is not zero, as programs write it that know of no trap.
__global__ void share(int *out, const int *part, const int *whole) {
  int i = threadIdx.x, quotient = part[i] / whole[i];
  out[i] = whole[i] != 0 ? quotient : 0;
}

template <class T> static void check(const std::vector<T> &dividends, const std::vector<T> &divisors, const std::vector<T> &expected) {
  Array<T> from(dividends), by(divisors), out(2 * dividends.size());
  divide<<<1, 1>>>(out.data, from.data, by.data, int(dividends.size()));
  EXPECT(out.get() == expected);
}

int main() {
  check<int>({7, 0, -7, INT_MIN, INT_MIN, -7, 9}, {0, 0, 0, 0, -1, -1, 4}, {-1, -1, -1, -1, -1, -1, -1, -1, INT_MIN, 0, 7, 0, 2, 1});
  check<unsigned>({7, 0, UINT_MAX, 9}, {0, 0, UINT_MAX, 4}, {UINT_MAX, UINT_MAX, UINT_MAX, UINT_MAX, 1, 0, 2, 1});
  check<long long>({7, -7, LLONG_MIN, LLONG_MIN, 9}, {0, 0, 0, -1, -4},
                   {UINT_MAX, UINT_MAX, -1, -1, -1, -1, LLONG_MIN, 0, -2, 1});
  check<unsigned long long>({7, 1ull << 40, 9}, {0, 0, 4}, {UINT_MAX, UINT_MAX, ULLONG_MAX, ULLONG_MAX, 2, 1});
  Array<unsigned> from({7, 9}), by({0, 4}), out(4);
  by_ptx<<<1, 2>>>(out.data, from.data, by.data);
  EXPECT(out.get() == std::vector<unsigned>({UINT_MAX, UINT_MAX, 2, 1}));
  Array<int> part({1, 8}), whole({0, 2}), shares(2);
  share<<<1, 2>>>(shares.data, part.data, whole.data);
  EXPECT(shares.get() == std::vector<int>({0, 4}));
  return finish();
}
