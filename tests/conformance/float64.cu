// Double precision.
#include "conformance.h"

#define ONE(name, T, expression)                                                                                       \
  CASE(name, T) {                                                                                                      \
    unsigned i = threadIdx.x;                                                                                          \
    double x = any_double(i), y = any_double((i * 7 + 3) % 64), z = any_double(63 - i);                                \
    (void)x, (void)y, (void)z;                                                                                         \
    out[i] = static_cast<T>(expression);                                                                                            \
  }

ONE(dadd_rn, double, __dadd_rn(x, y))
ONE(dadd_rz, double, __dadd_rz(x, y))
ONE(dadd_ru, double, __dadd_ru(x, y))
ONE(dadd_rd, double, __dadd_rd(x, y))
ONE(dsub_rd, double, __dsub_rd(x, y))
ONE(dmul_rn, double, __dmul_rn(x, y))
ONE(dmul_rz, double, __dmul_rz(x, y))
ONE(dmul_ru, double, __dmul_ru(x, y))
ONE(fma_rn, double, __fma_rn(x, y, z))
ONE(fma_rz, double, __fma_rz(x, y, z))
ONE(fma_ru, double, __fma_ru(x, y, z))
ONE(ddiv_rn, double, __ddiv_rn(x, y))
ONE(ddiv_rz, double, __ddiv_rz(x, y))
ONE(drcp_rn, double, __drcp_rn(x))
ONE(dsqrt_rn, double, __dsqrt_rn(x))
ONE(dsqrt_rd, double, __dsqrt_rd(x))
ONE(double_minimum, double, fmin(x, y))
ONE(double_remainder, double, fmod(x, y))
ONE(double_round, double, round(x))
ONE(double_rint, double, rint(x))
ONE(double_floor, double, floor(x))
ONE(double_to_int_rz, int, __double2int_rz(x))
ONE(double_to_int_rn, int, __double2int_rn(x))
ONE(double_to_long_rd, long long, __double2ll_rd(x))
ONE(double_to_unsigned_long_rn, unsigned long long, __double2ull_rn(x))
ONE(double_to_float_rn, float, __double2float_rn(x))
ONE(double_to_float_rz, float, __double2float_rz(x))
ONE(double_to_float_ru, float, __double2float_ru(x))
ONE(long_to_double_rz, double, __ll2double_rz((long long)any64(i)))
ONE(unsigned_long_to_double_ru, double, __ull2double_ru(any64(i)))
ONE(high_word, int, __double2hiint(copysign(2.5, x)))
ONE(from_words, double, __hiloint2double(int(0x3ff00000 + i), int(any32(i))))
