// Tiled matrix multiply: a block computes a tile of the product, and reads each tile of the factors into shared memory
// once for all its threads.
//
//   matmul [n]
//
// The elements are small whole numbers in floating point: all sums stay below 2^24, so they are exact, in any order of
// adding, up to n = 340000. They are checked without a multiplication of matrices: (A B) v is A (B v).
//
//#Args: n=100
//#Stdout: matmul: n=100 PASS
//#Static: 1
//#Peak: 3 * 4 * n * n

#include "common.h"
#include <vector>

constexpr unsigned kTile = 16;

__global__ void multiply(const float *a, const float *b, float *c, unsigned n) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  unsigned row = blockIdx.y * kTile + threadIdx.y;
  unsigned column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (unsigned k = 0; k < n; k += kTile) {
    // Past the edge the tiles are padded with zeros, so that every thread reaches the barriers.
    bool a_inside = row < n && k + threadIdx.x < n;
    bool b_inside = k + threadIdx.y < n && column < n;
    tile_a[threadIdx.y][threadIdx.x] = a_inside ? a[size_t(row) * n + k + threadIdx.x] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = b_inside ? b[size_t(k + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
    for (unsigned i = 0; i < kTile; i++)
      sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n)
    c[size_t(row) * n + column] = sum;
}

typedef unsigned long long Word;

// Modulo 2^64, so it is exact whatever the size.
static std::vector<Word> times(const std::vector<float> &matrix, const std::vector<Word> &vector) {
  size_t n = vector.size();
  std::vector<Word> product(n);
  for (size_t row = 0; row < n; row++)
    for (size_t column = 0; column < n; column++)
      product[row] += Word(matrix[row * n + column]) * vector[column];
  return product;
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 100);
  size_t bytes = n * n * sizeof(float);
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (size_t i = 0; i < n * n; i++) {
    a[i] = float((i * 7 + i / n) % 8);
    b[i] = float((i * 5 + i / n * 3) % 8);
  }

  float *da, *db, *dc;
  CHECK(cudaMalloc(&da, bytes));
  CHECK(cudaMalloc(&db, bytes));
  CHECK(cudaMalloc(&dc, bytes));
  CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
  unsigned tiles = unsigned((n + kTile - 1) / kTile);
  multiply<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(da, db, dc, unsigned(n));
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(da));
  CHECK(cudaFree(db));
  CHECK(cudaFree(dc));

  std::vector<Word> vector(n);
  Word state = 1;
  for (Word &element : vector)
    element = state = state * 6364136223846793005ull + 1442695040888963407ull;
  printf("matmul: n=%zu ", n);
  return report(times(c, vector) == times(a, times(b, vector)));
}
