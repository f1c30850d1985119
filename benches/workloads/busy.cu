// A job that keeps its GPU at work: kernels back to back, next to nothing on the host.
//
//   busy SIZE [--steps N] [--blocks N] [--chain N]     steps: kernels, default 2000; blocks of 128 threads each, default 132;
//                                                      chain: what a thread does in a kernel, default 1000000
//
// Each kernel's threads take the next words of memory and advance each by `chain` steps of a linear congruential generator,
// each of which needs the one before: a kernel lasts as long however many blocks it has, until the GPU is full. By
// default some 2 ms. The host computes the same by skipping ahead, for words here and there.
// Device memory: SIZE.

#include "workload.h"

constexpr unsigned kFactor = 1664525u, kIncrement = 1013904223u, kThreads = 128;

__host__ __device__ inline unsigned first_value(size_t i, unsigned seed) { return unsigned(i) * 2654435761u ^ seed; }

__global__ void fill(unsigned *words, size_t count, unsigned seed) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    words[i] = first_value(i, seed);
}

__global__ void advance(unsigned *words, size_t count, size_t first, size_t chain) {
  size_t i = (first + size_t(blockIdx.x) * blockDim.x + threadIdx.x) % count;
  unsigned x = words[i];
  for (size_t s = 0; s < chain; s++)
    x = x * kFactor + kIncrement;
  words[i] = x;
}

// `steps` steps at once.
static unsigned skip_ahead(unsigned x, size_t steps) {
  unsigned factor = kFactor, increment = kIncrement;
  for (; steps != 0; steps /= 2) {
    if (steps % 2 == 1)
      x = x * factor + increment;
    increment = increment * factor + increment;
    factor *= factor;
  }
  return x;
}

int main(int argc, char **argv) {
  size_t blocks = 132, chain = 1000000;
  Options options = read_options(argc, argv, "busy", 2000, {{"--blocks", &blocks}, {"--chain", &chain}});
  Profile profile;
  const size_t count = options.bytes / sizeof(unsigned), at_once = blocks * kThreads;
  constexpr size_t kWindow = 4096;
  // A kernel's threads must not meet in a word.
  require(options, count >= at_once && count >= kWindow);
  unsigned *d_words;
  profile.start();
  CHECK(cudaMalloc(&d_words, count * sizeof(unsigned)));
  profile.kernels();
  fill<<<1024, 256>>>(d_words, count, options.seed);
  CHECK_LAUNCH(fill);
  for (size_t step = 0; step < options.steps; step++) {
    advance<<<unsigned(blocks), kThreads>>>(d_words, count, step * at_once % count, chain);
    CHECK_LAUNCH(advance);
  }
  CHECK(cudaDeviceSynchronize());

  Verdict verdict;
  Checksum checksum;
  for (size_t k = 0; k < 64; k++) {
    // The first windows are where kernels begin, the others anywhere.
    size_t first = k == 0 ? 0 : k < 8 ? (options.steps - 1) / k * at_once % count : random_below(count);
    if (first > count - kWindow)
      first = count - kWindow;
    unsigned words[kWindow];
    profile.copy_out(sizeof words);
    CHECK(cudaMemcpy(words, d_words + first, sizeof words, cudaMemcpyDeviceToHost));
    profile.host();
    for (size_t i = first; i < first + kWindow; i++) {
      // Words are taken in turn, `at_once` a step, round after round.
      size_t taken = options.steps * at_once, times = taken / count + (i < taken % count);
      verdict.expect_that("the word", i, words[i - first] == skip_ahead(first_value(i, options.seed), times * chain));
      checksum.add(words[i - first]);
    }
  }
  profile.memory();
  CHECK(cudaFree(d_words));
  profile.host();
  return verdict.finish(options, profile, checksum);
}
