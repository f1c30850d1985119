// Global alignment of two sequences (Needleman and Wunsch): a matrix of scores, filled by anti-diagonals of tiles.
//
//   alignment SIZE [--steps N]     steps: pairs of sequences, one after the other, default 4
//
// Host, for each pair: two random sequences, the similarity of each letter of one to each of the other, the matrix's first
// row and column; then the way back through the scores, written as text.
// GPU, for each pair: both matrices in, a launch for each diagonal, growing and then shrinking, the scores out.
// Device memory: 8 bytes a cell (score and similarity), of which there are (rows + 1) * (cols + 1).

#include "workload.h"

constexpr unsigned kTile = 32, kLetters = 24;
constexpr int kGap = 10;

// A block fills the tile at (first_row + blockIdx.x, first_col - blockIdx.x): all tiles of an anti-diagonal at once. Its
// threads are the tile's columns, and go through it by anti-diagonals again. `pitch` is cols + 1: row and column 0 are given.
__global__ void fill_tile(const int *similarity, int *score, size_t pitch, size_t first_row, size_t first_col) {
  __shared__ int tile[kTile + 1][kTile + 1];
  __shared__ int similar[kTile][kTile];
  size_t corner = (first_row + blockIdx.x) * kTile * pitch + (first_col - blockIdx.x) * kTile;
  unsigned x = threadIdx.x;
  for (unsigned y = 0; y < kTile; y++)
    similar[y][x] = similarity[corner + (y + 1) * pitch + x + 1];
  if (x == 0)
    tile[0][0] = score[corner];
  tile[0][x + 1] = score[corner + x + 1];
  tile[x + 1][0] = score[corner + (x + 1) * pitch];
  __syncthreads();
  for (unsigned diagonal = 0; diagonal < 2 * kTile - 1; diagonal++) {
    if (x <= diagonal && diagonal - x < kTile) {
      unsigned y = diagonal - x;
      int matched = tile[y][x] + similar[y][x];
      int gap = max(tile[y][x + 1], tile[y + 1][x]) - kGap;
      tile[y + 1][x + 1] = max(matched, gap);
    }
    __syncthreads();
  }
  for (unsigned y = 0; y < kTile; y++)
    score[corner + (y + 1) * pitch + x + 1] = tile[y + 1][x + 1];
}

static int best(const int *score, const int *similarity, size_t pitch, size_t at) {
  int matched = score[at - pitch - 1] + similarity[at];
  int above = score[at - pitch] - kGap, left = score[at - 1] - kGap;
  return matched >= above && matched >= left ? matched : above > left ? above : left;
}

// The way from the last cell to the first, a letter a step; returns whether every cell on it is the best of its three.
static bool trace_back(FILE *output, const int *score, const int *similarity, size_t rows, size_t cols, Checksum &checksum) {
  size_t pitch = cols + 1, row = rows, col = cols;
  while (row > 0 && col > 0) {
    size_t at = row * pitch + col;
    if (score[at] != best(score, similarity, pitch, at))
      return false;
    checksum.add(uint64_t(score[at]));
    if (score[at] == score[at - pitch - 1] + similarity[at]) {
      fprintf(output, "M %d\n", score[at]);
      row--, col--;
    } else if (score[at] == score[at - pitch] - kGap) {
      fprintf(output, "D %d\n", score[at]);
      row--;
    } else {
      fprintf(output, "I %d\n", score[at]);
      col--;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "alignment", 4);
  Profile profile;
  const size_t wanted = options.bytes / (2 * sizeof(int));
  const size_t cols = size_t(sqrt(double(wanted))) / kTile * kTile;
  require(options, cols >= kTile);
  const size_t rows = (wanted / (cols + 1) - 1) / kTile * kTile;
  require(options, rows >= kTile);
  const size_t pitch = cols + 1, cells = (rows + 1) * pitch, bytes = cells * sizeof(int);
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);

  // What two letters are worth together: the same much, others little or less than nothing.
  int worth[kLetters][kLetters];
  for (unsigned a = 0; a < kLetters; a++)
    for (unsigned b = 0; b <= a; b++)
      worth[a][b] = worth[b][a] = a == b ? rand() % 6 + 4 : rand() % 8 - 4;

  int *d_similarity, *d_score;
  profile.start();
  CHECK(cudaMalloc(&d_similarity, bytes));
  profile.memory();
  CHECK(cudaMalloc(&d_score, bytes));
  Verdict verdict;
  Checksum checksum;
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    HostArray<int> similarity(cells), score(cells), result(cells);
    HostArray<unsigned char> down(rows + 1), across(pitch);
    for (size_t i = 0; i < cells; i++)
      score[i] = 0;
    for (size_t row = 1; row <= rows; row++)
      down[row] = (unsigned char)(rand() % kLetters);
    for (size_t col = 1; col <= cols; col++)
      across[col] = (unsigned char)(rand() % kLetters);
    for (size_t col = 0; col <= cols; col++) {
      score[col] = -int(col) * kGap;
      similarity[col] = 0;
    }
    for (size_t row = 1; row <= rows; row++) {
      score[row * pitch] = -int(row) * kGap;
      similarity[row * pitch] = 0;
      for (size_t col = 1; col <= cols; col++)
        similarity[row * pitch + col] = worth[down[row]][across[col]];
    }

    profile.copy_in(2 * bytes);
    CHECK(cudaMemcpy(d_similarity, similarity.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_score, score.data(), bytes, cudaMemcpyHostToDevice));
    profile.kernels();
    const size_t tile_rows = rows / kTile, tile_cols = cols / kTile;
    const size_t shorter = tile_rows < tile_cols ? tile_rows : tile_cols;
    for (size_t last = 0; last < tile_cols; last++) {
      fill_tile<<<unsigned(last + 1 < shorter ? last + 1 : shorter), kTile>>>(d_similarity, d_score, pitch, 0, last);
      CHECK_LAUNCH(fill_tile);
    }
    for (size_t first = 1; first < tile_rows; first++) {
      size_t left = tile_rows - first;
      fill_tile<<<unsigned(left < shorter ? left : shorter), kTile>>>(d_similarity, d_score, pitch, first, tile_cols - 1);
      CHECK_LAUNCH(fill_tile);
    }
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(bytes);
    CHECK(cudaMemcpy(result.data(), d_score, bytes, cudaMemcpyDeviceToHost));

    profile.host();
    // Every cell follows from three others: where that holds for the given border, for cells drawn at random and all along
    // the way back, the scores are right as far as one looks.
    for (size_t col = 0; col <= cols; col++)
      verdict.expect_that("the first row's score", col, result[col] == -int(col) * kGap);
    for (size_t k = 0; k < 20000; k++) {
      size_t at = (1 + random_below(rows)) * pitch + 1 + random_below(cols);
      verdict.expect_that("the score of cell", at, result[at] == best(result.data(), similarity.data(), pitch, at));
      if (k % 200 == 0)
        checksum.add(uint64_t(result[at]));
    }
    verdict.expect_that("the way back of pair", step,
                        trace_back(output, result.data(), similarity.data(), rows, cols, checksum));
  }
  profile.memory();
  CHECK(cudaFree(d_similarity));
  CHECK(cudaFree(d_score));
  profile.host();
  fclose(output);
  return verdict.finish(options, profile, checksum);
}
