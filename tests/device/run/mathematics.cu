// Mathematical functions of both precisions, fast forms, rounding modes, integer functions.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

constexpr int COUNT = 30;

template <class T> __global__ void functions(T *out) {
  T v = threadIdx.x * T(0.37) + T(0.1);
  double w = v;
  double results[COUNT] = {sin(v), cos(v), exp(v), log(v), pow(v, T(1.5)), sqrt(v), rsqrt(v), fma(v, v, v),
                           fabs(-v), floor(v), erf(v), tgamma(v), hypot(v, T(2)), atan2(v, T(1)), fmod(v, T(4)),
                           tanh(v), cbrt(v), erfcinv(w / 10), normcdf(w), sinpi(w), exp10(v), log1p(v), rint(v),
                           ldexp(v, 3), v / 3, rcbrt(w), norm3d(w, w, w), erfcx(w), lgamma(v), remainder(v, T(1))};
  for (int k = 0; k < COUNT; k++)
    out[threadIdx.x * COUNT + k] = results[k];
}

__global__ void fast(float *out) {
  float v = threadIdx.x * .3f + .2f, s, c;
  sincosf(v, &s, &c);
  float results[] = {__sinf(v), __expf(v), __powf(v, 2.f), s * s + c * c, __fdividef(v, 4.f), __frcp_rn(v)};
  for (int k = 0; k < 6; k++)
    out[threadIdx.x * 6 + k] = results[k];
}

__global__ void rounding(float *f, int *i) {
  volatile float one = 1, three = 3, tiny = 1e-10f;
  f[0] = __fdiv_rd(one, three), f[1] = __fdiv_ru(one, three);
  f[2] = __fadd_rz(one, tiny), f[3] = __fadd_ru(one, tiny);
  f[4] = __double2float_rd(0.1), f[5] = __double2float_ru(0.1);
  f[6] = __int2float_rz(16777217), f[7] = __int2float_ru(16777217);
  f[8] = one / three, f[9] = __fmaf_rz(three, one / three, -one);
  i[0] = __float2int_rn(2.5f), i[1] = __float2int_ru(2.1f), i[2] = __float2int_rd(-2.1f);
  i[3] = __float2int_rz(1e20f), i[4] = __double2int_rn(3.5), i[5] = (int)__float2uint_rn(-3.f);
  i[6] = __float2int_rn(NAN);
}

__global__ void bits(unsigned *out, unsigned a, unsigned b) {
  unsigned results[] = {(unsigned)__popc(a), (unsigned)__clz(a), (unsigned)__ffs(a), __brev(a),
                        __byte_perm(a, b, 0x3715), __umulhi(a, b), (unsigned)__mulhi((int)a, (int)b),
                        __funnelshift_l(a, b, 8), __funnelshift_r(a, b, 8), __sad((int)a, (int)b, 1u),
                        (unsigned)__mul24(a, b)};
  for (int k = 0; k < 11; k++)
    out[k] = results[k];
}

int main() {
  Array<double> doubles(8 * COUNT);
  Array<float> floats(8 * COUNT);
  functions<<<1, 8>>>(doubles.data);
  functions<<<1, 8>>>(floats.data);
  auto in_double = doubles.get();
  auto in_float = floats.get();
  for (int t = 0; t < 8; t++) {
    double v = t * .37 + .1, inverse = in_double[t * COUNT + 17];
    EXPECT(fabs(erfc(inverse) - v / 10) < 1e-12);
    double wanted[COUNT] = {sin(v), cos(v), exp(v), log(v), pow(v, 1.5), sqrt(v), 1 / sqrt(v), fma(v, v, v), v,
                            floor(v), erf(v), tgamma(v), hypot(v, 2), atan2(v, 1), fmod(v, 4), tanh(v), cbrt(v),
                            inverse, erfc(-v / sqrt(2.)) / 2, sin(M_PI * v), pow(10, v), log1p(v), rint(v), v * 8,
                            v / 3, 1 / cbrt(v), v * sqrt(3.), exp(v * v) * erfc(v), lgamma(v), remainder(v, 1)};
    for (int k = 0; k < COUNT; k++) {
      EXPECT(fabs(in_double[t * COUNT + k] - wanted[k]) <= 1e-12 * (1 + fabs(wanted[k])));
      EXPECT(fabs(in_float[t * COUNT + k] - wanted[k]) <= 4e-6 * (1 + fabs(wanted[k])));
    }
  }
  {
    Array<float> out(48);
    fast<<<1, 8>>>(out.data);
    auto values = out.get();
    for (int t = 0; t < 8; t++) {
      float v = t * .3f + .2f, wanted[] = {sinf(v), expf(v), v * v, 1, v / 4, 1 / v};
      for (int k = 0; k < 6; k++)
        EXPECT(fabsf(values[t * 6 + k] - wanted[k]) <= 2e-6f * (1 + wanted[k]));
    }
  }
  {
    Array<float> f(10);
    Array<int> i(7);
    rounding<<<1, 1>>>(f.data, i.data);
    auto x = f.get();
    EXPECT(x[0] < x[1] && nextafterf(x[0], 1) == x[1] && (x[8] == x[0] || x[8] == x[1]));
    EXPECT(x[2] == 1 && x[3] > 1);
    EXPECT(x[4] < 0.1 && x[5] > 0.1);
    EXPECT(x[6] == 16777216 && x[7] == 16777218);
    EXPECT(x[9] == fmaf(3, 1.f / 3, -1));
    EXPECT(i.get() == (std::vector<int>{2, 3, -3, 2147483647, 4, 0, 0}));
  }
  {
    unsigned a = 0x12345678, b = 0x9abcdef0;
    Array<unsigned> out(11);
    bits<<<1, 1>>>(out.data, a, b);
    unsigned wanted[] = {13, 3, 4, 0x1e6a2c48, 0x129a56de, (unsigned)(((unsigned long long)a * b) >> 32),
                         (unsigned)(((long long)(int)a * (int)b) >> 32), b << 8 | a >> 24, b << 24 | a >> 8,
                         (unsigned)((long long)(int)a - (int)b) + 1,
                         (unsigned)(((int)(a << 8) >> 8) * ((int)(b << 8) >> 8))};
    EXPECT(out.get() == std::vector<unsigned>(wanted, wanted + 11));
  }
  return finish();
}
