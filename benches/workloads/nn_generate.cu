// A recurrent network (gated recurrent units) that writes text, a piece of a word at a time, each drawn from what the network
// makes of those before.
//
//   nn_generate SIZE [--steps N]     steps: pieces of text, default 8000
//
// Host: the weights, a random number each; for each piece the probabilities from the scores, a draw, the text.
// GPU, for each piece: products of three matrices with vectors, the gates; the scores of all pieces out.
// Device memory: 88 * H * H + 64 * H bytes for H units (two matrices of 3 H x H, two of 8 H x H: there are 8 H pieces).

#include "network.h"

constexpr unsigned kWarps = 4; // of a block

// A warp for each row of the matrix.
__global__ void apply(const float *matrix, const float *vector, float *result, size_t rows, size_t cols) {
  size_t row = size_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows)
    return;
  float sum = 0;
  for (size_t col = threadIdx.x % 32; col < cols; col += 32)
    sum += matrix[row * cols + col] * vector[col];
  for (unsigned half = 16; half > 0; half /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, half);
  if (threadIdx.x % 32 == 0)
    result[row] = sum;
}

__host__ __device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// What a unit keeps and takes up: `in` and `back` are the three products of a unit, of the input and of the state.
__host__ __device__ inline float next_state(float state, const float *in, const float *back, size_t unit, size_t units) {
  float reset = sigmoid(in[unit] + back[unit]);
  float update = sigmoid(in[units + unit] + back[units + unit]);
  float candidate = tanhf(in[2 * units + unit] + reset * back[2 * units + unit]);
  return update * state + (1.0f - update) * candidate;
}

__global__ void gate(float *state, const float *in, const float *back, size_t units) {
  size_t unit = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit < units)
    state[unit] = next_state(state[unit], in, back, unit, units);
}

// A piece with the probability that its score gives it.
static size_t draw(const std::vector<float> &scores, std::vector<float> &weights) {
  float largest = scores[0];
  for (float score : scores)
    largest = score > largest ? score : largest;
  double sum = 0;
  for (size_t piece = 0; piece < scores.size(); piece++) {
    weights[piece] = expf(2.0f * (scores[piece] - largest));
    sum += weights[piece];
  }
  double left = uniform() * sum;
  size_t piece = 0;
  while (piece + 1 < scores.size() && left >= weights[piece])
    left -= weights[piece++];
  return piece;
}

// A piece as letters: its number, written with syllables for digits. An eighth of all pieces end a word.
static void write_piece(FILE *output, size_t piece) {
  static const char consonants[] = "bdfgklmnprstvwz", vowels[] = "aeiou";
  bool ends = piece % 8 == 0;
  for (piece /= 8;; piece /= 75) {
    fputc(consonants[piece % 15], output);
    fputc(vowels[piece / 15 % 5], output);
    if (piece < 75)
      break;
  }
  if (ends)
    fputc(' ', output);
}

// Rows of a product, on the host.
static void check_rows(Verdict &verdict, const char *what, const std::vector<float> &matrix, const float *vector, size_t cols,
                       const std::vector<float> &result) {
  for (size_t k = 0; k < 20; k++) {
    size_t row = random_below(result.size());
    double sum = 0;
    for (size_t col = 0; col < cols; col++)
      sum += double(matrix[row * cols + col]) * vector[col];
    verdict.expect(what, row, result[row], sum, 1e-4);
  }
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "nn_generate", 8000);
  Profile profile;
  const size_t units = size_t((sqrt(64.0 * 64.0 + 4 * 88.0 * double(options.bytes)) - 64.0) / (2 * 88.0));
  require(options, units >= 32);
  const size_t pieces = 8 * units;
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);

  std::vector<float> embedding = random_weights(pieces * units, 3), w_in = random_weights(3 * units * units, units),
                     w_back = random_weights(3 * units * units, units), w_out = random_weights(pieces * units, units);
  std::vector<float> scores(pieces), weights(pieces), before(units), after(units), in(3 * units), back(3 * units);

  float *d_embedding, *d_w_in, *d_w_back, *d_w_out, *d_state, *d_in, *d_back, *d_scores;
  profile.start();
  CHECK(cudaMalloc(&d_embedding, pieces * units * sizeof(float)));
  profile.memory();
  CHECK(cudaMalloc(&d_w_in, 3 * units * units * sizeof(float)));
  CHECK(cudaMalloc(&d_w_back, 3 * units * units * sizeof(float)));
  CHECK(cudaMalloc(&d_w_out, pieces * units * sizeof(float)));
  CHECK(cudaMalloc(&d_state, units * sizeof(float)));
  CHECK(cudaMalloc(&d_in, 3 * units * sizeof(float)));
  CHECK(cudaMalloc(&d_back, 3 * units * sizeof(float)));
  CHECK(cudaMalloc(&d_scores, pieces * sizeof(float)));
  profile.copy_in((2 * pieces + 6 * units) * units * sizeof(float));
  CHECK(cudaMemcpy(d_embedding, embedding.data(), pieces * units * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_w_in, w_in.data(), 3 * units * units * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_w_back, w_back.data(), 3 * units * units * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_w_out, w_out.data(), pieces * units * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_state, 0, units * sizeof(float)));

  Verdict verdict;
  Checksum checksum;
  size_t piece = 0;
  for (size_t step = 0; step < options.steps; step++) {
    // The first piece, one half-way, and the last are followed on the host.
    bool followed = step == 0 || step == options.steps / 2 || step + 1 == options.steps;
    if (followed) {
      profile.copy_out(units * sizeof(float));
      CHECK(cudaMemcpy(before.data(), d_state, units * sizeof(float), cudaMemcpyDeviceToHost));
    }
    profile.kernels();
    const float *d_input = d_embedding + piece * units;
    apply<<<unsigned((3 * units + kWarps - 1) / kWarps), 32 * kWarps>>>(d_w_in, d_input, d_in, 3 * units, units);
    CHECK_LAUNCH(apply);
    apply<<<unsigned((3 * units + kWarps - 1) / kWarps), 32 * kWarps>>>(d_w_back, d_state, d_back, 3 * units, units);
    CHECK_LAUNCH(apply);
    gate<<<blocks_of(units), 256>>>(d_state, d_in, d_back, units);
    CHECK_LAUNCH(gate);
    apply<<<unsigned((pieces + kWarps - 1) / kWarps), 32 * kWarps>>>(d_w_out, d_state, d_scores, pieces, units);
    CHECK_LAUNCH(apply);
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(pieces * sizeof(float));
    CHECK(cudaMemcpy(scores.data(), d_scores, pieces * sizeof(float), cudaMemcpyDeviceToHost));
    if (followed) {
      profile.copy_out(7 * units * sizeof(float));
      CHECK(cudaMemcpy(after.data(), d_state, units * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy(in.data(), d_in, 3 * units * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy(back.data(), d_back, 3 * units * sizeof(float), cudaMemcpyDeviceToHost));
    }

    profile.host();
    if (followed) {
      check_rows(verdict, "the input's product", w_in, &embedding[piece * units], units, in);
      check_rows(verdict, "the state's product", w_back, before.data(), units, back);
      check_rows(verdict, "the score of piece", w_out, after.data(), units, scores);
      for (size_t unit = 0; unit < units; unit++)
        verdict.expect("the state of unit", unit, after[unit], next_state(before[unit], in.data(), back.data(), unit, units), 1e-4);
    }
    piece = draw(scores, weights);
    write_piece(output, piece);
    // Not all: where a draw falls next to a boundary, another GPU's rounding may write another text from there on.
    if (step < 256)
      checksum.add(piece);
  }
  fputc('\n', output);
  profile.memory();
  CHECK(cudaFree(d_embedding));
  CHECK(cudaFree(d_w_in));
  CHECK(cudaFree(d_w_back));
  CHECK(cudaFree(d_w_out));
  CHECK(cudaFree(d_state));
  CHECK(cudaFree(d_in));
  CHECK(cudaFree(d_back));
  CHECK(cudaFree(d_scores));
  profile.host();
  fclose(output);
  return verdict.finish(options, profile, checksum);
}
