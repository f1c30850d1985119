// Numbers that an integer has no room for become the nearest that it has, as on a GPU.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: passed
#include "check.h"

__global__ void convert(long long *out, const float *f, const double *d, int n) {
  for (int i = 0; i < n; i++) {
    out[6 * i] = (int)f[i];
    out[6 * i + 1] = (unsigned)f[i];
    out[6 * i + 2] = (long long)f[i];
    out[6 * i + 3] = (int)d[i];
    out[6 * i + 4] = (unsigned)d[i];
    out[6 * i + 5] = (unsigned long long)d[i];
  }
}

int main() {
  const float none = __builtin_nanf("");
  const float values[] = {4294967296.f, -3e9f, 1e30f, -0.75f, 41.9f, none};
  const int n = 6;
  std::vector<double> wide(values, values + n);
  Array<float> f(std::vector<float>(values, values + n));
  Array<double> d(wide);
  Array<long long> out(6 * n);
  convert<<<1, 1>>>(out.data, f.data, d.data, n);
  const long long most = 0x7fffffffffffffff, least = -most - 1;
  const long long expected[n][6] = {
      {0x7fffffff, 0xffffffff, 0x100000000, 0x7fffffff, 0xffffffff, 0x100000000},
      {-0x80000000LL, 0, -3000000000, -0x80000000LL, 0, 0},
      {0x7fffffff, 0xffffffff, most, 0x7fffffff, 0xffffffff, -1},
      {0, 0, 0, 0, 0, 0},
      {41, 41, 41, 41, 41, 41},
      {0, 0, least, -0x80000000LL, 0x80000000, least},
  };
  auto found = out.get();
  for (int i = 0; i < n; i++)
    for (int k = 0; k < 6; k++)
      EXPECT(found[6 * i + k] == expected[i][k]);
  return finish();
}
