// The 8-bit floating-point formats: every one of their numbers there and back, roundings between all
// neighbours, what is too large, and what is no number.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: passed
#include "check.h"
#include <cuda_fp8.h>

template <__nv_fp8_interpretation_t F> __global__ void widen(float *out) {
  unsigned i = threadIdx.x;
  __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(i | (255 - i) << 8), F);
  __half_raw low, high;
  low.x = pair.x, high.x = pair.y;
  out[i] = __half2float(__half(low));
  out[256 + 255 - i] = __half2float(__half(high));
}

template <__nv_fp8_interpretation_t F> __global__ void narrow(unsigned *out, const float *in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float2 both = make_float2(in[i], in[n - 1 - i]);
  out[i] = __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, F);
}

template <__nv_fp8_interpretation_t F> __global__ void narrow_half(unsigned *out) {
  __half_raw half;
  half.x = blockIdx.x * blockDim.x + threadIdx.x;
  out[half.x] = __nv_cvt_halfraw_to_fp8(half, __NV_SATFINITE, F);
}

__global__ void relu(unsigned *out, float high, float low) {
  unsigned short a, b;
  unsigned h;
  asm("cvt.rn.satfinite.relu.e4m3x2.f32 %0, %1, %2;" : "=h"(a) : "f"(high), "f"(low));
  asm("cvt.rn.satfinite.relu.e5m2x2.f32 %0, %1, %2;" : "=h"(b) : "f"(high), "f"(low));
  asm("cvt.rn.relu.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"((unsigned short)0xb8ff));
  out[0] = a, out[1] = b, out[2] = h;
}

// What a code of the format with this many bits of fraction stands for.
double value(unsigned code, int fraction) {
  unsigned exponent = (code & 127) >> fraction, rest = code & ((1 << fraction) - 1);
  int bias = fraction == 3 ? 7 : 15;
  double number = exponent ? std::ldexp(1 + std::ldexp(rest, -fraction), int(exponent) - bias)
                           : std::ldexp(rest, 1 - bias - fraction);
  return code & 128 ? -number : number;
}

// The nearest code, found by looking at all; of two as near the even one.
unsigned nearest(double x, int fraction) {
  unsigned top = fraction == 3 ? 0x7e : 0x7b, best = 0;
  if (x != x)
    return 0x7f;
  double distance = INFINITY;
  for (unsigned code = 0; code <= top; code++) {
    double here = std::fabs(std::fabs(x) - value(code, fraction));
    if (here < distance || here == distance && !(code & 1))
      distance = here, best = code;
  }
  if (std::fabs(x) > value(top, fraction))
    best = top;
  return best | (std::signbit(x) ? 128 : 0);
}

float of_half(unsigned bits) {
  unsigned exponent = bits >> 10 & 31, rest = bits & 1023;
  float number = exponent == 31 ? (rest ? NAN : INFINITY)
                 : exponent     ? std::ldexp(1024 + rest, int(exponent) - 25)
                                : std::ldexp(rest, -24);
  return bits & 0x8000 ? -number : number;
}

template <__nv_fp8_interpretation_t F> void all(int fraction) {
  unsigned top = fraction == 3 ? 0x7e : 0x7b;
  Array<float> wide(512);
  widen<F><<<1, 256>>>(wide.data);
  auto numbers = wide.get();
  for (unsigned code = 0; code < 512; code++) {
    unsigned magnitude = code & 127;
    double wanted = magnitude <= top                      ? value(code & 255, fraction)
                    : fraction == 2 && magnitude == 0x7c ? (code & 128 ? -INFINITY : INFINITY)
                                                          : NAN;
    EXPECT(wanted != wanted ? numbers[code] != numbers[code] : numbers[code] == wanted);
  }
  std::vector<float> in = {0.f, -0.f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1e-30f, 1e-45f, 464.f, 465.f, 61440.f};
  for (unsigned code = 0; code <= top; code++) {
    float at = value(code, fraction), next = value(code + 1, fraction), middle = (at + next) / 2;
    for (float x : {at, middle, std::nextafter(middle, 0.f), std::nextafter(middle, INFINITY)})
      in.push_back(x), in.push_back(-x);
  }
  Array<float> device(in);
  Array<unsigned> out(in.size()), halves(65536);
  narrow<F><<<(in.size() + 127) / 128, 128>>>(out.data, device.data, in.size());
  auto codes = out.get();
  for (size_t i = 0; i < in.size(); i++) {
    EXPECT((codes[i] & 255) == nearest(in[i], fraction));
    EXPECT(codes[i] >> 8 == nearest(in[in.size() - 1 - i], fraction));
  }
  narrow_half<F><<<256, 256>>>(halves.data);
  codes = halves.get();
  for (unsigned bits = 0; bits < 65536; bits++)
    EXPECT((codes[bits] & 255) == nearest(of_half(bits), fraction));
}

int main() {
  all<__NV_E4M3>(3);
  all<__NV_E5M2>(2);
  Array<unsigned> out(3);
  relu<<<1, 1>>>(out.data, -2.f, 2.f);
  auto codes = out.get();
  EXPECT(codes[0] == 0x0040);
  EXPECT(codes[1] == 0x0040);
  EXPECT(codes[2] == 0x00007fff);
  return finish();
}
