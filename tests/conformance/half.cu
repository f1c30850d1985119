// Half precision and bfloat16: their bits, as integers.
#include "conformance.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __half half_of(unsigned i) { return __float2half_rn(between(i * 13 % 64, -40.0f, 40.0f)); }
__device__ __half2 halves_of(unsigned i) { return __halves2half2(half_of(i), half_of(i + 17)); }
__device__ __nv_bfloat16 brain_of(unsigned i) { return __float2bfloat16_rn(between(i * 13 % 64, -40.0f, 40.0f)); }
__device__ __nv_bfloat162 brains_of(unsigned i) { return __halves2bfloat162(brain_of(i), brain_of(i + 17)); }
__device__ unsigned bits_of(__half x) { return __half_as_ushort(x); }
__device__ unsigned bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ unsigned bits_of(__half2 x) { return bits_of(__low2half(x)) | bits_of(__high2half(x)) << 16; }
__device__ unsigned bits_of(__nv_bfloat162 x) { return bits_of(__low2bfloat16(x)) | bits_of(__high2bfloat16(x)) << 16; }
__device__ unsigned bits_of(bool x) { return x; }

#define HALF(name, expression)                                                                                         \
  CASE(half_##name, unsigned) {                                                                                        \
    unsigned i = threadIdx.x;                                                                                          \
    __half x = half_of(i), y = half_of(i + 29), z = half_of(i + 5);                                                    \
    __half2 v = halves_of(i), w = halves_of(i + 29), u = halves_of(i + 5);                                             \
    (void)x, (void)y, (void)z, (void)v, (void)w, (void)u;                                                              \
    out[i] = bits_of(expression);                                                                                      \
  }
#define BRAIN(name, expression)                                                                                        \
  CASE(bfloat_##name, unsigned) {                                                                                      \
    unsigned i = threadIdx.x;                                                                                          \
    __nv_bfloat16 x = brain_of(i), y = brain_of(i + 29), z = brain_of(i + 5);                                          \
    __nv_bfloat162 v = brains_of(i), w = brains_of(i + 29), u = brains_of(i + 5);                                      \
    (void)x, (void)y, (void)z, (void)v, (void)w, (void)u;                                                              \
    out[i] = bits_of(expression);                                                                                      \
  }

HALF(add, __hadd(x, y))
HALF(subtract, __hsub(x, y))
HALF(multiply, __hmul(x, y))
HALF(fused, __hfma(x, y, z))
HALF(divide, __hdiv(x, y))
HALF(negate, __hneg(x))
HALF(absolute, __habs(x))
HALF(minimum, __hmin(x, y))
HALF(maximum, __hmax(x, y))
HALF(saturated, __hadd_sat(x, y))
HALF(equal, __heq(x, y))
HALF(less, __hlt(x, y))
HALF(greater_or_equal, __hge(x, y))
HALF(floor, hfloor(x))
HALF(rint, hrint(x))
HALF(square_root, hsqrt(__habs(x)))
HALF(pair_add, __hadd2(v, w))
HALF(pair_multiply, __hmul2(v, w))
HALF(pair_fused, __hfma2(v, w, u))
HALF(pair_maximum, __hmax2(v, w))
HALF(pair_greater, __hgt2(v, w))
HALF(pair_swapped, __lowhigh2highlow(v))
HALF(from_float_rz, __float2half_rz(any_float(i)))
HALF(from_float_ru, __float2half_ru(any_float(i)))
HALF(from_double, __double2half(any_double(i)))
HALF(from_int, __int2half_rn(int(any32(i)) >> (i % 24)))
HALF(operators, (x + y) * z - x / (y + __float2half(50.0f)))

CASE(half_to_int, int) { out[threadIdx.x] = __half2int_rn(half_of(threadIdx.x)); }
CASE(half_to_float, float) { out[threadIdx.x] = __half2float(__ushort_as_half((unsigned short)any32(threadIdx.x))); }

BRAIN(add, __hadd(x, y))
BRAIN(multiply, __hmul(x, y))
BRAIN(fused, __hfma(x, y, z))
BRAIN(divide, __hdiv(x, y))
BRAIN(minimum, __hmin(x, y))
BRAIN(less, __hlt(x, y))
BRAIN(pair_add, __hadd2(v, w))
BRAIN(pair_fused, __hfma2(v, w, u))
BRAIN(from_float_rz, __float2bfloat16_rz(any_float(i)))
BRAIN(from_int, __int2bfloat16_rn(int(any32(i)) >> (i % 24)))

CASE(bfloat_to_float, float) {
  out[threadIdx.x] = __bfloat162float(__ushort_as_bfloat16((unsigned short)any32(threadIdx.x)));
}

CASE(half_through_shuffle, unsigned) {
  out[threadIdx.x] = bits_of(__shfl_xor_sync(0xffffffff, halves_of(threadIdx.x), 5));
}

CASE(half_atomic_add, unsigned) {
  __shared__ __half2 sums[4];
  unsigned i = threadIdx.x;
  if (i < 4)
    sums[i] = __float2half2_rn(0.0f);
  __syncthreads();
  atomicAdd(&sums[i % 4], __float2half2_rn(float(i % 8)));
  __syncthreads();
  out[i] = bits_of(sums[i % 4]);
}
