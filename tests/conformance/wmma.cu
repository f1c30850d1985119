// Matrix instructions: each case compares a product with sums of its own, exact where the type is, else within 2^-21 of
// the sum of its terms' sizes.
#include "conformance.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// Two warps; each has matrices of its own in shared memory.
constexpr int kMost = 32 * 16 + 16;

template <class T> __device__ double number(T value) { return double(float(value)); }
template <> __device__ double number(double value) { return value; }
template <> __device__ double number(int value) { return value; }

template <class T> __device__ T input(uint32_t i);
template <> __device__ float input(uint32_t i) { return float(int(any32(i) % 4001) - 2000) / 512; }
template <> __device__ double input(uint32_t i) { return double(int(any32(i))) / 65536; }
template <> __device__ __half input(uint32_t i) { return __float2half(input<float>(i)); }
template <> __device__ __nv_bfloat16 input(uint32_t i) { return __float2bfloat16(input<float>(i)); }
template <> __device__ signed char input(uint32_t i) { return any32(i); }
template <> __device__ unsigned char input(uint32_t i) { return any32(i); }
template <> __device__ int input(uint32_t i) { return int(any32(i) >> 8); }

// What multiplication takes of an element.
template <class Kind, class T> struct Taken {
  static __device__ T of(T value) { return value; }
};
template <> struct Taken<wmma::precision::tf32, float> {
  static __device__ float of(float value) { return wmma::__float_to_tf32(value); }
};

template <class Layout> constexpr bool by_rows = std::is_same<Layout, wmma::row_major>::value;

template <class Out> __device__ bool close(double found, double wanted, double size) {
  if (std::is_same<Out, int>::value)
    return found == wanted;
  double units = std::is_same<Out, double>::value ? 1e-14 : std::is_same<Out, __half>::value ? 1. / 512 : 1. / (1 << 21);
  return fabs(found - wanted) <= units * size;
}

// D = A * B + C on this warp, and whether every element of D is right.
template <int M, int N, int K, class Kind, class Stored, class Out, class LayoutA, class LayoutB>
__device__ unsigned product(wmma::layout_t layout) {
  __shared__ alignas(32) Stored a_of[2][kMost], b_of[2][kMost];
  __shared__ alignas(32) Out c_of[2][kMost], d_of[2][kMost];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Stored *a = a_of[warp], *b = b_of[warp];
  Out *c = c_of[warp], *d = d_of[warp];
  for (int i = lane; i < M * K; i += 32)
    a[i] = Taken<Kind, Stored>::of(input<Stored>(i + warp * 1000));
  for (int i = lane; i < K * N; i += 32)
    b[i] = Taken<Kind, Stored>::of(input<Stored>(i + warp * 1000 + 500));
  for (int i = lane; i < M * N; i += 32)
    c[i] = input<Out>(i + 777);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, K, Kind, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, Kind, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Out> fc;
  bool rows = layout == wmma::mem_row_major;
  wmma::load_matrix_sync(fa, a, by_rows<LayoutA> ? K : M);
  wmma::load_matrix_sync(fb, b, by_rows<LayoutB> ? N : K);
  wmma::load_matrix_sync(fc, c, rows ? N : M, layout);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, rows ? N : M, layout);
  __syncwarp();
  bool right = true;
  for (int i = lane; i < M * N; i += 32) {
    int row = i / N, column = i % N, at = rows ? row * N + column : column * M + row;
    double sum = number(c[at]), size = fabs(sum);
    for (int k = 0; k < K; k++) {
      double x = number(a[by_rows<LayoutA> ? row * K + k : k * M + row]);
      double y = number(b[by_rows<LayoutB> ? k * N + column : column * K + k]);
      sum += x * y, size += fabs(x * y);
    }
    right = right && close<Out>(number(d[at]), sum, size);
  }
  return right;
}

#define PRODUCT(name, M, N, K, kind, stored, out_type)                                                                 \
  SELF_CASE(name##_row_col) {                                                                                          \
    out[threadIdx.x] =                                                                                                 \
        product<M, N, K, kind, stored, out_type, wmma::row_major, wmma::col_major>(wmma::mem_row_major);               \
  }                                                                                                                    \
  SELF_CASE(name##_col_row) {                                                                                          \
    out[threadIdx.x] =                                                                                                 \
        product<M, N, K, kind, stored, out_type, wmma::col_major, wmma::row_major>(wmma::mem_col_major);               \
  }
#define THREE_SHAPES(name, stored, out_type)                                                                           \
  PRODUCT(name##_16x16x16, 16, 16, 16, stored, stored, out_type)                                                       \
  PRODUCT(name##_32x8x16, 32, 8, 16, stored, stored, out_type)                                                         \
  PRODUCT(name##_8x32x16, 8, 32, 16, stored, stored, out_type)

THREE_SHAPES(half_float, __half, float)
THREE_SHAPES(half_half, __half, __half)
THREE_SHAPES(bfloat_float, __nv_bfloat16, float)
THREE_SHAPES(signed_bytes, signed char, int)
THREE_SHAPES(unsigned_bytes, unsigned char, int)
PRODUCT(tf32_float_16x16x8, 16, 16, 8, wmma::precision::tf32, float, float)
PRODUCT(double_8x8x4, 8, 8, 4, double, double, double)

// Fragments of one kind have one layout: elements of two can be paired.
SELF_CASE(fragments_pair) {
  __shared__ alignas(32) float a[256], b[256];
  for (int i = threadIdx.x; i < 256; i += 64)
    a[i] = i, b[i] = 1000 - 3 * i;
  __syncthreads();
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fa, fb;
  wmma::load_matrix_sync(fa, a, 16, wmma::mem_row_major);
  wmma::load_matrix_sync(fb, b, 16, wmma::mem_row_major);
  for (int i = 0; i < fa.num_elements; i++)
    fa.x[i] = 2 * fa.x[i] + fb.x[i];
  __syncthreads();
  wmma::store_matrix_sync(a, fa, 16, wmma::mem_row_major);
  __syncthreads();
  bool right = true;
  for (int i = threadIdx.x; i < 256; i += 64)
    right = right && a[i] == 1000 - i;
  out[threadIdx.x] = right;
}

SELF_CASE(sums_saturate) {
  __shared__ alignas(32) unsigned char ones[256];
  __shared__ alignas(32) int sums[256];
  for (int i = threadIdx.x; i < 256; i += 64)
    ones[i] = 255, sums[i] = 0x7fffffff - i;
  __syncthreads();
  if (threadIdx.x < 32) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, unsigned char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, unsigned char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
    wmma::load_matrix_sync(a, ones, 16);
    wmma::load_matrix_sync(b, ones, 16);
    wmma::load_matrix_sync(c, sums, 16, wmma::mem_row_major);
    wmma::mma_sync(c, a, b, c, true);
    wmma::store_matrix_sync(sums, c, 16, wmma::mem_row_major);
  }
  __syncthreads();
  bool right = true;
  for (int i = threadIdx.x; i < 256; i += 64)
    right = right && sums[i] == 0x7fffffff;
  out[threadIdx.x] = right;
}

// Less than bytes.
SELF_CASE(bits_and_nibbles) {
  namespace sub = wmma::experimental;
  __shared__ alignas(32) unsigned a[32], b[32];
  __shared__ alignas(32) int sums[2][64];
  if (threadIdx.x < 32)
    a[threadIdx.x] = any32(threadIdx.x + 8), b[threadIdx.x] = any32(threadIdx.x + 70);
  __syncthreads();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    wmma::fragment<wmma::matrix_a, 8, 8, 128, sub::precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, sub::precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::fill_fragment(fc, 5);
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::bmma_sync(fc, fa, fb, fc, sub::bmmaBitOpAND);
    wmma::store_matrix_sync(sums[0], fc, 8, wmma::mem_row_major);
  } else {
    wmma::fragment<wmma::matrix_a, 8, 8, 32, sub::precision::s4, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, sub::precision::s4, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
    wmma::fill_fragment(fc, -5);
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(sums[1], fc, 8, wmma::mem_row_major);
  }
  __syncwarp();
  bool right = true;
  for (int i = lane; i < 64; i += 32) {
    int row = i / 8, column = i % 8, sum = warp == 0 ? 5 : -5;
    for (int k = 0; k < 4; k++)
      if (warp == 0)
        sum += __popc(a[row * 4 + k] & b[column * 4 + k]);
      else
        for (int nibble = 0; nibble < 8; nibble++)
          sum += (int(a[row * 4 + k] << (28 - 4 * nibble)) >> 28) * (int(b[column * 4 + k] << (28 - 4 * nibble)) >> 28);
    right = right && sums[warp][i] == sum;
  }
  out[threadIdx.x] = right;
}

// Rows of an 8x8 matrix from addresses of eight lanes, plain and transposed, and back.
SELF_CASE(matrices_by_rows) {
  __shared__ alignas(16) unsigned short from[2][8][8], to[2][8][8];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = lane; i < 64; i += 32)
    from[warp][i / 8][i % 8] = any32(i);
  __syncwarp();
  unsigned plain, turned, again;
  unsigned row = __cvta_generic_to_shared(from[warp][lane % 8]), into = __cvta_generic_to_shared(to[warp][lane % 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(plain) : "r"(row) : "memory");
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(turned) : "r"(row) : "memory");
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(again) : "r"(turned));
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(into), "r"(turned) : "memory");
  __syncwarp();
  const auto &m = from[warp];
  int r = lane / 4, c = lane % 4 * 2;
  out[threadIdx.x] = plain == (m[r][c] | unsigned(m[r][c + 1]) << 16) &&
                     turned == (m[c][r] | unsigned(m[c + 1][r]) << 16) && again == plain && to[warp][r][c] == m[c][r] &&
                     to[warp][r][c + 1] == m[c + 1][r];
}

// mma.sync, by the figures of the PTX ISA.
SELF_CASE(mma_halves) {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  auto a_at = [](int row, int k) { return input<__half>(row * 16 + k); };
  auto b_at = [](int k, int column) { return input<__half>(column * 16 + k + 300); };
  __half2 a[4], b[2];
  float c[4];
  for (int i = 0; i < 4; i++) {
    int row = g + i % 2 * 8, k = t * 2 + i / 2 * 8;
    a[i] = __halves2half2(a_at(row, k), a_at(row, k + 1));
    c[i] = input<float>(i + threadIdx.x * 4);
  }
  for (int i = 0; i < 2; i++)
    b[i] = __halves2half2(b_at(t * 2 + i * 8, g), b_at(t * 2 + i * 8 + 1, g));
  auto word = [](__half2 pair) {
    unsigned bits;
    memcpy(&bits, &pair, 4);
    return bits;
  };
  float d[4];
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%10, %11, %12, %13};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(word(a[0])), "r"(word(a[1])), "r"(word(a[2])), "r"(word(a[3])), "r"(word(b[0])), "r"(word(b[1])),
                 "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  bool right = true;
  for (int i = 0; i < 4; i++) {
    int row = g + i / 2 * 8, column = t * 2 + i % 2;
    double sum = c[i], size = fabs(sum);
    for (int k = 0; k < 16; k++) {
      double term = number(a_at(row, k)) * number(b_at(k, column));
      sum += term, size += fabs(term);
    }
    right = right && close<float>(d[i], sum, size);
  }
  out[threadIdx.x] = right;
}

SELF_CASE(mma_doubles) {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  double d[2];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
               : "=d"(d[0]), "=d"(d[1])
               : "d"(input<double>(g * 4 + t)), "d"(input<double>(g * 4 + t + 100)), "d"(input<double>(g * 8 + t * 2)),
                 "d"(input<double>(g * 8 + t * 2 + 1)));
  bool right = true;
  for (int i = 0; i < 2; i++) {
    double sum = input<double>(g * 8 + t * 2 + i), size = fabs(sum);
    for (int k = 0; k < 4; k++) {
      double term = input<double>(g * 4 + k) * input<double>((t * 2 + i) * 4 + k + 100);
      sum += term, size += fabs(term);
    }
    right = right && close<double>(d[i], sum, size);
  }
  out[threadIdx.x] = right;
}

// Ties go away from zero, and what is no number stays none.
SELF_CASE(float_to_tf32) {
  uint32_t bits = threadIdx.x < 32 ? any32(threadIdx.x + 8) : 0x3f800000 | threadIdx.x << 10;
  float kept = wmma::__float_to_tf32(__uint_as_float(bits));
  bool none = (bits & 0x7fffffff) > 0x7f800000;
  // Only the first 19 bits of the result are defined.
  out[threadIdx.x] = none ? isnan(kept) : __float_as_uint(kept) >> 13 == (bits + 0x1000) >> 13;
}
