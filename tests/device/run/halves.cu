// Half and bfloat16 arithmetic: the headers' inline PTX, with values that the formats define.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> __device__ unsigned short bits(T value) { return *(unsigned short *)&value; }

__global__ void conversions(unsigned short *out) {
  int i = 0;
  out[i++] = bits(__float2half(1.0f));
  out[i++] = bits(__float2half_rn(2049.0f));    // a tie, to even: 2048
  out[i++] = bits(__float2half_ru(2049.0f));    // 2050
  out[i++] = bits(__float2half_rz(70000.0f));   // 65504, the largest
  out[i++] = bits(__float2half_rn(70000.0f));   // infinity
  out[i++] = bits(__float2half_rd(-1e-9f));     // the subnormal below zero
  out[i++] = bits(__int2half_rn(-3));
  out[i++] = bits(__double2half(0.1));
  out[i++] = bits(__float2bfloat16(1.00390625f)); // a tie, to even: 1
  out[i++] = bits(__float2bfloat16_ru(1.001f));
  out[i++] = bits(__float2bfloat16_rz(-1.999f));
  out[i++] = bits(__double2bfloat16(3.0));
  out[i++] = __half2int_rz(__float2half(-2.5f));
  out[i++] = __half2uint_ru(__float2half(2.5f));
  out[i++] = __half2short_rn(__float2half(2.5f));
  out[i++] = bits(hrint(__float2half(3.5f)));
}

__global__ void arithmetic(unsigned short *out) {
  __half a = __float2half(1.5f), b = __float2half(-0.25f);
  int i = 0;
  out[i++] = bits(a + b);
  out[i++] = bits(a * b);
  out[i++] = bits(a / b);
  out[i++] = bits(__hfma(a, a, b));
  out[i++] = bits(__hadd_sat(a, a));
  out[i++] = bits(__hneg(a));
  out[i++] = bits(__habs(b));
  out[i++] = bits(hsqrt(__float2half(2.25f)));
  out[i++] = __hlt(b, a) + 2 * __heq(a, b) + 4 * __hisnan(a);
  out[i++] = bits(__hmax(a, b));
  __half2 v = __halves2half2(a, b), w = __hfma2(v, v, v);
  out[i++] = bits(__low2half(w));
  out[i++] = bits(__high2half(w));
  out[i++] = __hbgt2(v, __float2half2_rn(-1));
  out[i++] = bits(hexp(__float2half(0.0f)));
  __nv_bfloat16 x = __float2bfloat16(1.5f), y = __float2bfloat16(-0.25f);
  out[i++] = bits(x + y);
  out[i++] = bits(__hfma(x, x, y));
  out[i++] = bits(x / y);
  out[i++] = __hge(x, y);
}

__global__ void atomics(__half *h, __half2 *pair, __nv_bfloat16 *b) {
  atomicAdd(h, __float2half(1.0f));
  atomicAdd(pair, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b, __float2bfloat16(1.0f));
}

__global__ void shuffles(__half *out) {
  __half2 v = __float2half2_rn(threadIdx.x);
  v = __hadd2(v, __shfl_down_sync(~0u, v, 16));
  out[threadIdx.x] = __low2half(v);
}

template <class T> static float number(T value) { return value; }

int main() {
  {
    Array<unsigned short> out(16);
    conversions<<<1, 1>>>(out.data);
    EXPECT(out.get() == (std::vector<unsigned short>{0x3c00, 0x6800, 0x6801, 0x7bff, 0x7c00, 0x8001, 0xc200, 0x2e66,
                                                     0x3f80, 0x3f81, 0xbfff, 0x4040, (unsigned short)-2, 3, 2,
                                                     0x4400}));
  }
  {
    Array<unsigned short> out(18);
    arithmetic<<<1, 1>>>(out.data);
    EXPECT(out.get() == (std::vector<unsigned short>{0x3d00, 0xb600, 0xc600, 0x4000, 0x3c00, 0xbe00, 0x3400, 0x3e00,
                                                     1, 0x3e00, 0x4380, 0xb200, 1, 0x3c00, 0x3fa0, 0x4000, 0xc0c0,
                                                     1}));
  }
  {
    Array<__half> h(1);
    Array<__half2> pair(1);
    Array<__nv_bfloat16> b(1);
    atomics<<<4, 32>>>(h.data, pair.data, b.data);
    EXPECT(number(h.get()[0]) == 128 && number(b.get()[0]) == 128);
    EXPECT(number(__low2half(pair.get()[0])) == 128 && number(__high2half(pair.get()[0])) == 256);
  }
  {
    Array<__half> out(32);
    shuffles<<<1, 32>>>(out.data);
    EXPECT(number(out.get()[3]) == 22);
  }
  return finish();
}
