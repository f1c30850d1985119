// wmma: every type and shape that mma.h has, in several layouts, against sums that the host computes. All values are small
// integers, so that no order and no rounding of a sum makes a difference.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"
#include <mma.h>
using namespace nvcuda;

// Four warps, each with C of its own; rows are longer than the matrix has columns.
constexpr int kWarps = 4, kGap = 16;

template <class Layout> constexpr bool by_rows = std::is_same<Layout, wmma::row_major>::value;

template <int M, int N, int K, class In, class Stored, class Out, class LayoutA, class LayoutB>
__global__ void multiply(const Stored *a, const Stored *b, Out *c, wmma::layout_t layout) {
  wmma::fragment<wmma::matrix_a, M, N, K, In, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, In, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Out> fc;
  int warp = threadIdx.x / 32, columns = layout == wmma::mem_row_major ? N : M;
  Out *own = c + warp * 32 * (32 + kGap);
  wmma::load_matrix_sync(fa, a, (by_rows<LayoutA> ? K : M) + kGap);
  wmma::load_matrix_sync(fb, b, (by_rows<LayoutB> ? N : K) + kGap);
  wmma::load_matrix_sync(fc, own, columns + kGap, layout);
  // Twice over, and once more by hand: 2 * (A * B) + C, doubled.
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; i++)
    fc.x[i] = fc.x[i] + fc.x[i];
  wmma::store_matrix_sync(own, fc, columns + kGap, layout);
}

template <class T> T value(int i) { return T(float(i)); }
template <> signed char value(int i) { return i; }
template <> unsigned char value(int i) { return i; }
template <> int value(int i) { return i; }
template <> double value(int i) { return i; }

// A matrix of rows x columns, in memory as told, of small numbers from `low` on.
template <class T> struct Matrix {
  bool rows_first;
  int stride;
  std::vector<T> data;
  Matrix(int rows, int columns, bool rows_first, int low)
      : rows_first(rows_first), stride((rows_first ? columns : rows) + kGap), data(32 * (32 + kGap), value<T>(99)) {
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < columns; c++)
        data[at(r, c)] = value<T>(low + (r * 5 + c * 3 + r * c) % 7);
  }
  int at(int r, int c) const { return rows_first ? r * stride + c : c * stride + r; }
  double operator()(int r, int c) const { return double(float(data[at(r, c)])); }
};

template <int M, int N, int K, class In, class Out, class LayoutA, class LayoutB, class Stored = In>
void in_layouts(wmma::layout_t layout) {
  int low = std::is_same<Stored, unsigned char>::value ? 0 : -3;
  Matrix<Stored> a(M, K, by_rows<LayoutA>, low), b(K, N, by_rows<LayoutB>, low);
  Matrix<Out> c(M, N, layout == wmma::mem_row_major, -3);
  std::vector<Out> all;
  for (int warp = 0; warp < kWarps; warp++)
    all.insert(all.end(), c.data.begin(), c.data.end());
  Array<Stored> da(a.data), db(b.data);
  Array<Out> dc(all);
  multiply<M, N, K, In, Stored, Out, LayoutA, LayoutB><<<1, 32 * kWarps>>>(da.data, db.data, dc.data, layout);
  auto found = dc.get();
  for (int row = 0; row < M; row++)
    for (int column = 0; column < N; column++) {
      double sum = 0;
      for (int k = 0; k < K; k++)
        sum += a(row, k) * b(k, column);
      Out wanted = value<Out>(int(2 * (2 * sum + c(row, column))));
      for (int warp = 0; warp < kWarps; warp++) {
        Out &here = found[warp * c.data.size() + c.at(row, column)];
        EXPECT(float(here) == float(wanted));
        here = all[c.at(row, column)];
      }
    }
  // Nothing beside the matrix was written.
  for (size_t i = 0; i < all.size(); i++)
    EXPECT(float(found[i]) == float(all[i]));
}

template <int M, int N, int K, class In, class Out, class Stored = In> void shape() {
  for (auto layout : {wmma::mem_row_major, wmma::mem_col_major}) {
    in_layouts<M, N, K, In, Out, wmma::row_major, wmma::col_major, Stored>(layout);
    in_layouts<M, N, K, In, Out, wmma::col_major, wmma::row_major, Stored>(layout);
  }
}

template <class In, class Out> void shapes() {
  shape<16, 16, 16, In, Out>();
  shape<32, 8, 16, In, Out>();
  shape<8, 32, 16, In, Out>();
}

int main() {
  shapes<half, float>();
  shapes<half, half>();
  shapes<__nv_bfloat16, float>();
  shapes<signed char, int>();
  shapes<unsigned char, int>();
  shape<16, 16, 8, wmma::precision::tf32, float, float>();
  shape<8, 8, 4, double, double>();
  in_layouts<16, 16, 16, half, float, wmma::row_major, wmma::row_major>(wmma::mem_row_major);
  in_layouts<8, 32, 16, half, half, wmma::col_major, wmma::col_major>(wmma::mem_col_major);
  return finish();
}
