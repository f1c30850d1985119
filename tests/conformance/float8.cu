// The 8-bit floating-point formats: by instruction, for the forms that cuda_fp8.h does not have too.
#include "conformance.h"

// A number of few bits, with an exponent around those of the formats.
__device__ float near(unsigned i) {
  uint32_t bits = conformance::scatter(i);
  return __uint_as_float((bits & 0x80700000) | (108 + bits % 37) << 23);
}

#define FROM_FLOATS(name, instruction)                                                                                 \
  CASE(name, unsigned) {                                                                                               \
    unsigned i = threadIdx.x;                                                                                          \
    unsigned short any, close;                                                                                         \
    asm(instruction " %0, %1, %2;" : "=h"(any) : "f"(any_float(i)), "f"(any_float(i + 7)));                            \
    asm(instruction " %0, %1, %2;" : "=h"(close) : "f"(near(i)), "f"(near(i + 64)));                                   \
    out[i] = unsigned(any) << 16 | close;                                                                              \
  }
FROM_FLOATS(e4m3_of_floats, "cvt.rn.satfinite.e4m3x2.f32")
FROM_FLOATS(e5m2_of_floats, "cvt.rn.satfinite.e5m2x2.f32")
FROM_FLOATS(e4m3_of_floats_relu, "cvt.rn.satfinite.relu.e4m3x2.f32")
FROM_FLOATS(e5m2_of_floats_relu, "cvt.rn.satfinite.relu.e5m2x2.f32")

// Every half: too many to keep, so a sum over what they give, in order.
#define FROM_HALVES(name, instruction)                                                                                 \
  CASE(name, unsigned) {                                                                                               \
    unsigned i = threadIdx.x, sum = 0;                                                                                 \
    for (unsigned at = 0; at < 1024; at++) {                                                                           \
      unsigned low = i * 1024 + at, high = 65535 - low;                                                                \
      unsigned short pair;                                                                                             \
      asm(instruction " %0, %1;" : "=h"(pair) : "r"(high << 16 | low));                                                \
      sum = sum * 31 + pair;                                                                                           \
    }                                                                                                                  \
    out[i] = sum;                                                                                                      \
  }
FROM_HALVES(e4m3_of_halves, "cvt.rn.satfinite.e4m3x2.f16x2")
FROM_HALVES(e5m2_of_halves, "cvt.rn.satfinite.e5m2x2.f16x2")
FROM_HALVES(e4m3_of_halves_relu, "cvt.rn.satfinite.relu.e4m3x2.f16x2")
FROM_HALVES(e5m2_of_halves_relu, "cvt.rn.satfinite.relu.e5m2x2.f16x2")

#define TO_HALVES(name, instruction)                                                                                   \
  CASE_OF(name, unsigned, 4, 64, 0) {                                                                                  \
    unsigned i = linear();                                                                                             \
    unsigned halves;                                                                                                   \
    asm(instruction " %0, %1;" : "=r"(halves) : "h"((unsigned short)((255 - i) << 8 | i)));                            \
    out[i] = halves;                                                                                                   \
  }
TO_HALVES(halves_of_e4m3, "cvt.rn.f16x2.e4m3x2")
TO_HALVES(halves_of_e5m2, "cvt.rn.f16x2.e5m2x2")
TO_HALVES(halves_of_e4m3_relu, "cvt.rn.relu.f16x2.e4m3x2")
TO_HALVES(halves_of_e5m2_relu, "cvt.rn.relu.f16x2.e5m2x2")
