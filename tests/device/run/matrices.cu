// mma.sync, ldmatrix, stmatrix and movmatrix in inline PTX: where the PTX ISA says that a lane's elements are. All values are
// small integers, so that no order and no rounding of a sum makes a difference.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__host__ __device__ constexpr int a_at(int row, int k) { return (row * 5 + k * 3 + row * k) % 7 - 3; }
__host__ __device__ constexpr int b_at(int k, int column) { return (k * 2 + column * 5 + k * column) % 5 - 2; }
__host__ __device__ constexpr int c_at(int row, int column) { return row - 2 * column; }

// Registers of T, whose elements are the rule's.
template <class T, int Registers, class Rule> __device__ void fill(unsigned (&registers)[Registers], Rule rule) {
  T elements[Registers * 4 / sizeof(T)];
  for (int i = 0; i < int(Registers * 4 / sizeof(T)); i++)
    elements[i] = T(float(rule(i)));
  memcpy(registers, elements, sizeof registers);
}

// The figures of the PTX ISA: element i of the lane of group g and number t in it.
struct Lane {
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  template <class T> __device__ void of_16x8(T *out, const T (&c)[4]) const {
    for (int i = 0; i < 4; i++)
      out[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = c[i];
  }
};

// m16n8k16 and m16n8k8 of the 16-bit formats.
#define SMALL(name, T, k8, k16)                                                                                        \
  __global__ void name(float *out) {                                                                                   \
    Lane l;                                                                                                            \
    unsigned a[4], b[2];                                                                                               \
    float c[4];                                                                                                        \
    fill<T>(a, [&](int i) { return a_at(l.g + i / 2 % 2 * 8, l.t * 2 + i % 2 + i / 4 * 8); });                         \
    fill<T>(b, [&](int i) { return b_at(l.t * 2 + i % 2 + i / 2 * 8, l.g); });                                         \
    for (int i = 0; i < 4; i++)                                                                                        \
      c[i] = c_at(l.g + i / 2 * 8, l.t * 2 + i % 2);                                                                   \
    asm volatile("mma.sync.aligned.m16n8k16.row.col." k16 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "            \
                 "{%0, %1, %2, %3};"                                                                                   \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                  \
    l.of_16x8(out, c);                                                                                                 \
    float d[4];                                                                                                        \
    asm volatile("mma.sync.aligned.m16n8k8.row.col." k8 " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"        \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(0.f), "f"(0.f), "f"(0.f), "f"(0.f));                           \
    l.of_16x8(out + 128, d);                                                                                           \
  }
SMALL(halves, __half, "f32.f16.f16.f32", "f32.f16.f16.f32")
SMALL(brains, __nv_bfloat16, "f32.bf16.bf16.f32", "f32.bf16.bf16.f32")

__global__ void halves_in_halves(__half *out) {
  Lane l;
  unsigned a[4], b[2], d[2];
  fill<__half>(a, [&](int i) { return a_at(l.g + i / 2 % 2 * 8, l.t * 2 + i % 2 + i / 4 * 8); });
  fill<__half>(b, [&](int i) { return b_at(l.t * 2 + i % 2 + i / 2 * 8, l.g); });
  fill<__half>(d, [&](int i) { return c_at(l.g + i / 2 * 8, l.t * 2 + i % 2); });
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  __half c[4];
  memcpy(c, d, sizeof c);
  l.of_16x8(out, c);
}

__global__ void singles(float *out) {
  Lane l;
  float a[4], b[2], c[4];
  for (int i = 0; i < 4; i++)
    a[i] = a_at(l.g + i % 2 * 8, l.t + i / 2 * 4), c[i] = c_at(l.g + i / 2 * 8, l.t * 2 + i % 2);
  for (int i = 0; i < 2; i++)
    // What is beyond the 19 bits of tf32 does not count.
    b[i] = __int_as_float(__float_as_int(float(b_at(l.t + i * 4, l.g))) | (b_at(l.t + i * 4, l.g) ? 0x1fff : 0));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(__float_as_int(a[0])), "r"(__float_as_int(a[1])), "r"(__float_as_int(a[2])),
                 "r"(__float_as_int(a[3])), "r"(__float_as_int(b[0])), "r"(__float_as_int(b[1])));
  l.of_16x8(out, c);
}

__global__ void doubles(double *out) {
  Lane l;
  double d[2], a[4], b[2], c[4];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
               : "=d"(d[0]), "=d"(d[1])
               : "d"(double(a_at(l.g, l.t))), "d"(double(b_at(l.t, l.g))), "d"(double(c_at(l.g, l.t * 2))),
                 "d"(double(c_at(l.g, l.t * 2 + 1))));
  for (int i = 0; i < 2; i++)
    out[128 + l.g * 8 + l.t * 2 + i] = d[i];
  for (int i = 0; i < 4; i++)
    a[i] = a_at(l.g + i % 2 * 8, l.t + i / 2 * 4), c[i] = c_at(l.g + i / 2 * 8, l.t * 2 + i % 2);
  for (int i = 0; i < 2; i++)
    b[i] = b_at(l.t + i * 4, l.g);
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
  l.of_16x8(out, c);
}

__global__ void bytes(int *out) {
  Lane l;
  unsigned a[4], b[2];
  int c[4], d[2];
  fill<signed char>(a, [&](int i) { return a_at(l.g + i / 4 % 2 * 8, l.t * 4 + i % 4 + i / 8 * 16); });
  fill<unsigned char>(b, [&](int i) { return b_at(l.t * 4 + i % 4 + i / 4 * 16, l.g) + 2; });
  for (int i = 0; i < 4; i++)
    c[i] = c_at(l.g + i / 2 * 8, l.t * 2 + i % 2);
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  l.of_16x8(out, c);
  // Sums stop where their range ends, or wrap around.
  asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%4, %4};"
               : "=r"(d[0]), "=r"(d[1])
               : "r"(~0u), "r"(~0u), "r"(0x7fffffff));
  out[128 + threadIdx.x] = d[0] == 0x7fffffff && d[1] == d[0];
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%4, %4};"
               : "=r"(d[0]), "=r"(d[1])
               : "r"(~0u), "r"(~0u), "r"(0x7fffffff));
  out[160 + threadIdx.x] = d[0] == int(0x7fffffffu + 16 * 255 * 255) && d[1] == d[0];
  asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.s4.u4.s32 {%0, %1}, {%2}, {%3}, {%4, %4};"
               : "=r"(d[0]), "=r"(d[1])
               : "r"(~0u), "r"(~0u), "r"(7));
  out[192 + threadIdx.x] = d[0] == 7 - 32 * 15 && d[1] == d[0];
  asm volatile("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0, %1}, {%2}, {%3}, {%4, %4};"
               : "=r"(d[0]), "=r"(d[1])
               : "r"(0x0000000fu), "r"(0x00000005u), "r"(7));
  out[224 + threadIdx.x] = d[0] == 7 + 4 * 2 && d[1] == d[0];
}

__global__ void quarters(float *out) {
  Lane l;
  unsigned a[4], b[2];
  float c[4] = {};
  fill<__nv_fp8_e4m3>(a, [&](int i) { return a_at(l.g + i / 4 % 2 * 8, l.t * 4 + i % 4 + i / 8 * 16); });
  fill<__nv_fp8_e5m2>(b, [&](int i) { return b_at(l.t * 4 + i % 4 + i / 4 * 16, l.g); });
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  l.of_16x8(out, c);
}

// Rows of 16 bytes in an order of their own; what lane 4 * row + t gets, plain and transposed.
__global__ void moves(unsigned short *out) {
  __shared__ alignas(16) unsigned short from[4][8][8], to[4][8][8];
  int i = threadIdx.x;
  for (int at = i; at < 256; at += 32)
    from[at / 64][at / 8 % 8][at % 8] = at, to[at / 64][at / 8 % 8][at % 8] = 0;
  // Without __syncthreads: the instruction waits for the warp.
  unsigned row = __cvta_generic_to_shared(from[i / 8][7 - i % 8]), d[4], e[2], f, g;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(row)
               : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(e[0]), "=r"(e[1])
               : "r"(row)
               : "memory");
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(f) : "r"(d[0]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(g) : "r"(row) : "memory");
  for (int m = 0; m < 4; m++)
    memcpy(out + m * 64 + 2 * i, &d[m], 4);
  for (int m = 0; m < 2; m++)
    memcpy(out + 256 + m * 64 + 2 * i, &e[m], 4);
  unsigned into = __cvta_generic_to_shared(to[i / 8][i % 8]);
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(into), "r"(d[0]), "r"(d[1]) : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0+256], {%1};" ::"r"(into), "r"(d[2]) : "memory");
  for (int m = 0; m < 3; m++)
    memcpy(out + 384 + m * 64 + 2 * i, &to[m][i / 4][i % 4 * 2], 4);
  out[640 + i] = f == g;
}

__global__ void shortened(unsigned *out, const float *in) {
  float kept;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=f"(kept) : "f"(in[threadIdx.x]));
  out[threadIdx.x] = __float_as_uint(kept);
}

// On stacks of their own: what a thread calls is not known before it runs.
__device__ double plus(double x) { return x + 1; }
__device__ double minus(double x) { return x - 1; }
__global__ void through_pointers(double *out, int which) {
  Lane l;
  double (*change)(double) = which ? plus : minus;
  double d[2] = {};
  for (int round = 0; round < 3; round++) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(double(a_at(l.g, l.t))), "d"(double(b_at(l.t, l.g))));
    d[0] = change(d[0]), d[1] = change(d[1]);
  }
  out[l.g * 8 + l.t * 2] = d[0], out[l.g * 8 + l.t * 2 + 1] = d[1];
}

template <class T> void expect_product(const std::vector<T> &found, int at, int rows, int depth, bool with_c, int low = 0) {
  for (int row = 0; row < rows; row++)
    for (int column = 0; column < 8; column++) {
      double sum = with_c ? c_at(row, column) : 0;
      for (int k = 0; k < depth; k++)
        sum += a_at(row, k) * (b_at(k, column) + low);
      EXPECT(double(float(found[at + row * 8 + column])) == sum);
    }
}

int main() {
  Array<float> floats(256);
  for (auto kernel : {halves, brains}) {
    kernel<<<1, 32>>>(floats.data);
    expect_product(floats.get(), 0, 16, 16, true);
    expect_product(floats.get(), 128, 16, 8, false);
  }
  Array<__half> small(128);
  halves_in_halves<<<1, 32>>>(small.data);
  expect_product(small.get(), 0, 16, 16, true);
  singles<<<1, 32>>>(floats.data);
  expect_product(floats.get(), 0, 16, 8, true);
  quarters<<<1, 32>>>(floats.data);
  expect_product(floats.get(), 0, 16, 32, false);
  Array<double> wide(192);
  doubles<<<1, 32>>>(wide.data);
  expect_product(wide.get(), 128, 8, 4, true);
  expect_product(wide.get(), 0, 16, 8, true);
  // Two warps, of which the second has half its lanes: what the others would have is zero.
  for (int which : {0, 1}) {
    through_pointers<<<1, 48>>>(wide.data, which);
    auto found = wide.get();
    for (int row = 0; row < 12; row++)
      for (int column = 0; column < 8; column++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
          sum += row < 8 ? a_at(row, k) * b_at(k, column) : column < 4 ? a_at(row, k) * b_at(k, column + 8) : 0;
        EXPECT(found[row * 8 + column] == 3 * sum + (which ? 3 : -3));
      }
  }
  Array<int> integers(256);
  bytes<<<1, 32>>>(integers.data);
  expect_product(integers.get(), 0, 16, 32, true, 2);
  for (int i = 128; i < 256; i++)
    EXPECT(integers.get()[i] == 1);
  Array<unsigned short> moved(672);
  moves<<<1, 32>>>(moved.data);
  auto found = moved.get();
  for (int m = 0; m < 4; m++)
    for (int row = 0; row < 8; row++)
      for (int column = 0; column < 8; column++) {
        int plain = m * 64 + (7 - row) * 8 + column, turned = m * 64 + (7 - column) * 8 + row, at = row * 8 + column;
        EXPECT(found[m * 64 + at] == plain);
        EXPECT(m >= 2 || found[256 + m * 64 + at] == turned);
        EXPECT(m >= 3 || found[384 + m * 64 + at] == (m < 2 ? plain : turned));
      }
  for (int i = 0; i < 32; i++)
    EXPECT(found[640 + i] == 1);
  std::vector<float> in = {1.f,        1.00048828125f, -1.00048828125f, 1.0004882f,
                           INFINITY,   3.4028235e38f,  NAN,             1e-45f};
  Array<float> given(in);
  Array<unsigned> kept(in.size());
  shortened<<<1, int(in.size())>>>(kept.data, given.data);
  // Ties go away from zero.
  EXPECT(kept.get() == (std::vector<unsigned>{0x3f800000, 0x3f802000, 0xbf802000, 0x3f800000, 0x7f800000, 0x7f800000,
                                              0x7fffffff, 0}));
  return finish();
}
