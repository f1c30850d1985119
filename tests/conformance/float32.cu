// Single precision: arithmetic with a rounding of its own, conversions, classification.
#include "conformance.h"

#define ONE(name, T, expression) ONE_WITHIN(name, T, 0, expression)
#define ONE_WITHIN(name, T, ulps, expression)                                                                          \
  CASE_WITHIN(name, T, ulps) {                                                                                         \
    unsigned i = threadIdx.x;                                                                                          \
    float x = any_float(i), y = any_float((i * 7 + 3) % 64), z = any_float(63 - i);                                    \
    (void)x, (void)y, (void)z;                                                                                         \
    out[i] = static_cast<T>(expression);                                                                                            \
  }

ONE(fadd_rn, float, __fadd_rn(x, y))
ONE(fadd_rz, float, __fadd_rz(x, y))
ONE(fadd_ru, float, __fadd_ru(x, y))
ONE(fadd_rd, float, __fadd_rd(x, y))
ONE(fsub_rz, float, __fsub_rz(x, y))
ONE(fmul_rn, float, __fmul_rn(x, y))
ONE(fmul_rz, float, __fmul_rz(x, y))
ONE(fmul_ru, float, __fmul_ru(x, y))
ONE(fmul_rd, float, __fmul_rd(x, y))
ONE(fmaf_rn, float, __fmaf_rn(x, y, z))
ONE(fmaf_rz, float, __fmaf_rz(x, y, z))
ONE(fmaf_ru, float, __fmaf_ru(x, y, z))
ONE(fmaf_rd, float, __fmaf_rd(x, y, z))
ONE(fdiv_rn, float, __fdiv_rn(x, y))
ONE(fdiv_rz, float, __fdiv_rz(x, y))
ONE(fdiv_ru, float, __fdiv_ru(x, y))
ONE(frcp_rn, float, __frcp_rn(x))
ONE(frcp_rd, float, __frcp_rd(x))
ONE(fsqrt_rn, float, __fsqrt_rn(x))
ONE(fsqrt_ru, float, __fsqrt_ru(x))
ONE(fused_by_hand, float, fmaf(x, y, z))
ONE_WITHIN(frsqrt_rn, float, 1, __frsqrt_rn(x))
ONE_WITHIN(fdividef, float, 3, (fabsf(y) > 1e30f ? 1.0f : __fdividef(x, y)))
ONE(saturate, float, __saturatef(x))
ONE(float_minimum, float, fminf(x, y))
ONE(float_maximum, float, fmaxf(x, y))
ONE(float_absolute, float, fabsf(x))
ONE(copy_sign, float, copysignf(x, y))
ONE(float_remainder, float, fmodf(x, y))
ONE(ieee_remainder, float, remainderf(x, y))
ONE(next_after, float, nextafterf(x, y))
ONE(positive_difference, float, fdimf(x, y))
ONE(scale_by_power, float, ldexpf(x, int(i) - 32))
ONE(float_ceil, float, ceilf(x))
ONE(float_floor, float, floorf(x))
ONE(float_trunc, float, truncf(x))
ONE(float_round, float, roundf(x))
ONE(float_rint, float, rintf(x))
ONE(to_int_rn, int, __float2int_rn(x))
ONE(to_int_rz, int, __float2int_rz(x))
ONE(to_int_ru, int, __float2int_ru(x))
ONE(to_int_rd, int, __float2int_rd(x))
ONE(to_unsigned_rz, unsigned, __float2uint_rz(x))
ONE(to_long_rn, long long, __float2ll_rn(x))
ONE(to_unsigned_long_rz, unsigned long long, __float2ull_rz(x))
ONE(from_int_rn, float, __int2float_rn(int(any32(i))))
ONE(from_int_rz, float, __int2float_rz(int(any32(i))))
ONE(from_unsigned_ru, float, __uint2float_ru(any32(i)))
ONE(from_long_rd, float, __ll2float_rd((long long)any64(i)))
ONE(as_int, int, __float_as_int(copysignf(1.5f, x)))
ONE(classified, int,
    (isnan(x) ? 1 : 0) + (isinf(x) ? 2 : 0) + (isfinite(x) ? 4 : 0) + (signbit(x) ? 8 : 0) + (x == y ? 16 : 0) +
        (x < y ? 32 : 0) + (isunordered(x, y) ? 64 : 0))

CASE(fraction_and_exponent, float) {
  unsigned i = threadIdx.x;
  int exponent = 0;
  float x = any_float(i + 16 + (i % 48)), fraction = frexpf(x, &exponent), whole;
  float rest = modff(x, &whole);
  out[i] = fraction + float(exponent) + rest + whole;
}
