// Training of a classifier with two wide hidden layers, by gradient descent with momentum on batches of 128.
//
//   nn_train SIZE [--steps N]     steps: batches, default 400
//
// Host: the weights, a random number each; for each batch its samples, noise around one point per class, and the loss.
// GPU, for each batch: samples in, products forward and back, new weights; the classes' probabilities out.
// Device memory: 8 bytes a weight (1024 * H + H * H + 64 * H, with momentum), 2048 bytes for each of the H units of a layer,
// 590,336 for a batch.

#include "network.h"

constexpr size_t kInputs = 1024, kClasses = 64, kBatch = 128;
constexpr float kMomentum = 0.9f;

// Scores to probabilities, less what they should be: a thread for each sample.
__global__ void errors_of(float *scores, float *probabilities, const int *labels) {
  size_t sample = threadIdx.x;
  float largest = scores[sample * kClasses], sum = 0;
  for (size_t c = 1; c < kClasses; c++)
    largest = fmaxf(largest, scores[sample * kClasses + c]);
  for (size_t c = 0; c < kClasses; c++)
    sum += expf(scores[sample * kClasses + c] - largest);
  for (size_t c = 0; c < kClasses; c++) {
    float p = expf(scores[sample * kClasses + c] - largest) / sum;
    probabilities[sample * kClasses + c] = p;
    scores[sample * kClasses + c] = p - (labels[sample] == int(c) ? 1.0f : 0.0f);
  }
}

// No error goes back through a unit that was off.
__global__ void mask(float *errors, const float *activations, size_t count) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count && activations[at] <= 0.0f)
    errors[at] = 0.0f;
}

__global__ void move(float *weights, const float *momentum, size_t count, float rate) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count)
    weights[at] -= rate * momentum[at];
}

// The class of each sample, and the sample: the class's point and noise.
static void make_batch(const std::vector<float> &points, std::vector<float> &samples, std::vector<int> &labels) {
  for (size_t s = 0; s < kBatch; s++) {
    labels[s] = rand() % int(kClasses);
    for (size_t i = 0; i < kInputs; i++)
      samples[s * kInputs + i] = points[size_t(labels[s]) * kInputs + i] + 2.0f * (uniform() - 0.5f);
  }
}

static double loss_of(const std::vector<float> &probabilities, const std::vector<int> &labels) {
  double loss = 0;
  for (size_t s = 0; s < kBatch; s++)
    loss -= log(double(probabilities[s * kClasses + size_t(labels[s])]) + 1e-12);
  return loss / kBatch;
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "nn_train", 400);
  Profile profile;
  // 8 h^2 + b h + c = bytes
  const double b = 8.0 * (kInputs + kClasses) + 4.0 * 4 * kBatch, c = 4.0 * kBatch * (kInputs + 2 * kClasses + 1);
  require(options, double(options.bytes) > c + 16 * b);
  const size_t hidden = size_t((sqrt(b * b + 32 * (double(options.bytes) - c)) - b) / 16);
  const float rate = 8.0f / float(hidden); // the wider a layer, the more each of its weights' changes add up
  const size_t n1 = kInputs * hidden, n2 = hidden * hidden, n3 = hidden * kClasses;

  std::vector<float> w1 = random_weights(n1, kInputs), w2 = random_weights(n2, hidden), w3 = random_weights(n3, hidden);
  std::vector<float> points(kClasses * kInputs), samples(kBatch * kInputs), probabilities(kBatch * kClasses);
  std::vector<int> labels(kBatch);
  for (float &value : points)
    value = uniform() - 0.5f;

  float *d_w1, *d_w2, *d_w3, *d_v1, *d_v2, *d_v3, *d_samples, *d_a1, *d_a2, *d_e1, *d_e2, *d_scores, *d_probabilities;
  int *d_labels;
  profile.start();
  CHECK(cudaMalloc(&d_w1, n1 * sizeof(float)));
  profile.memory();
  CHECK(cudaMalloc(&d_w2, n2 * sizeof(float)));
  CHECK(cudaMalloc(&d_w3, n3 * sizeof(float)));
  CHECK(cudaMalloc(&d_v1, n1 * sizeof(float)));
  CHECK(cudaMalloc(&d_v2, n2 * sizeof(float)));
  CHECK(cudaMalloc(&d_v3, n3 * sizeof(float)));
  CHECK(cudaMalloc(&d_samples, kBatch * kInputs * sizeof(float)));
  CHECK(cudaMalloc(&d_a1, kBatch * hidden * sizeof(float)));
  CHECK(cudaMalloc(&d_a2, kBatch * hidden * sizeof(float)));
  CHECK(cudaMalloc(&d_e1, kBatch * hidden * sizeof(float)));
  CHECK(cudaMalloc(&d_e2, kBatch * hidden * sizeof(float)));
  CHECK(cudaMalloc(&d_scores, kBatch * kClasses * sizeof(float)));
  CHECK(cudaMalloc(&d_probabilities, kBatch * kClasses * sizeof(float)));
  CHECK(cudaMalloc(&d_labels, kBatch * sizeof(int)));
  profile.copy_in((n1 + n2 + n3) * sizeof(float));
  CHECK(cudaMemcpy(d_w1, w1.data(), n1 * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_w2, w2.data(), n2 * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_w3, w3.data(), n3 * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_v1, 0, n1 * sizeof(float)));
  CHECK(cudaMemset(d_v2, 0, n2 * sizeof(float)));
  CHECK(cudaMemset(d_v3, 0, n3 * sizeof(float)));

  // The last step is followed on the host, from what the GPU had before it: a row and a strip of columns of the second
  // layer with its momentum, the others' weights whole.
  constexpr size_t kStrip = 4;
  const size_t row = hidden / 2;
  std::vector<float> w2_strip(hidden * kStrip), v2_row(hidden), w2_row(hidden), moved_row(hidden);
  double first_loss = 0, loss = 0;
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    make_batch(points, samples, labels);
    if (step + 1 == options.steps) {
      profile.copy_out((n1 + n3 + (2 + kStrip) * hidden) * sizeof(float));
      CHECK(cudaMemcpy(w1.data(), d_w1, n1 * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy(w3.data(), d_w3, n3 * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy(w2_row.data(), d_w2 + row * hidden, hidden * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy(v2_row.data(), d_v2 + row * hidden, hidden * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaMemcpy2D(w2_strip.data(), kStrip * sizeof(float), d_w2, hidden * sizeof(float), kStrip * sizeof(float), hidden,
                         cudaMemcpyDeviceToHost));
    }
    profile.copy_in(kBatch * (kInputs + 1) * sizeof(float));
    CHECK(cudaMemcpy(d_samples, samples.data(), kBatch * kInputs * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_labels, labels.data(), kBatch * sizeof(int), cudaMemcpyHostToDevice));

    profile.kernels();
    const dim3 threads(16, 16);
    const float share = 1.0f / kBatch;
    multiply<<<tiles_of(kBatch, hidden), threads>>>(Matrix{d_samples, kInputs, 1}, Matrix{d_w1, hidden, 1}, d_a1, kBatch, hidden,
                                                    kInputs, 0, 1, true);
    CHECK_LAUNCH(multiply);
    multiply<<<tiles_of(kBatch, hidden), threads>>>(Matrix{d_a1, hidden, 1}, Matrix{d_w2, hidden, 1}, d_a2, kBatch, hidden,
                                                    hidden, 0, 1, true);
    CHECK_LAUNCH(multiply);
    multiply<<<tiles_of(kBatch, kClasses), threads>>>(Matrix{d_a2, hidden, 1}, Matrix{d_w3, kClasses, 1}, d_scores, kBatch,
                                                      kClasses, hidden, 0, 1, false);
    CHECK_LAUNCH(multiply);
    errors_of<<<1, kBatch>>>(d_scores, d_probabilities, d_labels);
    CHECK_LAUNCH(errors_of);
    multiply<<<tiles_of(kBatch, hidden), threads>>>(Matrix{d_scores, kClasses, 1}, Matrix{d_w3, 1, kClasses}, d_e2, kBatch,
                                                    hidden, kClasses, 0, 1, false);
    CHECK_LAUNCH(multiply);
    mask<<<blocks_of(kBatch * hidden), 256>>>(d_e2, d_a2, kBatch * hidden);
    CHECK_LAUNCH(mask);
    multiply<<<tiles_of(kBatch, hidden), threads>>>(Matrix{d_e2, hidden, 1}, Matrix{d_w2, 1, hidden}, d_e1, kBatch, hidden,
                                                    hidden, 0, 1, false);
    CHECK_LAUNCH(multiply);
    mask<<<blocks_of(kBatch * hidden), 256>>>(d_e1, d_a1, kBatch * hidden);
    CHECK_LAUNCH(mask);
    multiply<<<tiles_of(kInputs, hidden), threads>>>(Matrix{d_samples, 1, kInputs}, Matrix{d_e1, hidden, 1}, d_v1, kInputs,
                                                     hidden, kBatch, kMomentum, share, false);
    CHECK_LAUNCH(multiply);
    multiply<<<tiles_of(hidden, hidden), threads>>>(Matrix{d_a1, 1, hidden}, Matrix{d_e2, hidden, 1}, d_v2, hidden, hidden,
                                                    kBatch, kMomentum, share, false);
    CHECK_LAUNCH(multiply);
    multiply<<<tiles_of(hidden, kClasses), threads>>>(Matrix{d_a2, 1, hidden}, Matrix{d_scores, kClasses, 1}, d_v3, hidden,
                                                      kClasses, kBatch, kMomentum, share, false);
    CHECK_LAUNCH(multiply);
    move<<<blocks_of(n1), 256>>>(d_w1, d_v1, n1, rate);
    CHECK_LAUNCH(move);
    move<<<blocks_of(n2), 256>>>(d_w2, d_v2, n2, rate);
    CHECK_LAUNCH(move);
    move<<<blocks_of(n3), 256>>>(d_w3, d_v3, n3, rate);
    CHECK_LAUNCH(move);
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(kBatch * kClasses * sizeof(float));
    CHECK(cudaMemcpy(probabilities.data(), d_probabilities, kBatch * kClasses * sizeof(float), cudaMemcpyDeviceToHost));
    profile.host();
    loss = loss_of(probabilities, labels);
    if (step == 0)
      first_loss = loss;
  }

  std::vector<float> a1(kBatch * hidden), a2(kBatch * hidden), e1(kBatch * hidden), e2(kBatch * hidden),
      errors(kBatch * kClasses);
  profile.copy_out((4 * kBatch * hidden + hidden + kBatch * kClasses) * sizeof(float));
  CHECK(cudaMemcpy(a1.data(), d_a1, kBatch * hidden * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(a2.data(), d_a2, kBatch * hidden * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(e1.data(), d_e1, kBatch * hidden * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(e2.data(), d_e2, kBatch * hidden * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(errors.data(), d_scores, kBatch * kClasses * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(moved_row.data(), d_w2 + row * hidden, hidden * sizeof(float), cudaMemcpyDeviceToHost));
  profile.memory();
  CHECK(cudaFree(d_w1));
  CHECK(cudaFree(d_w2));
  CHECK(cudaFree(d_w3));
  CHECK(cudaFree(d_v1));
  CHECK(cudaFree(d_v2));
  CHECK(cudaFree(d_v3));
  CHECK(cudaFree(d_samples));
  CHECK(cudaFree(d_a1));
  CHECK(cudaFree(d_a2));
  CHECK(cudaFree(d_e1));
  CHECK(cudaFree(d_e2));
  CHECK(cudaFree(d_scores));
  CHECK(cudaFree(d_probabilities));
  CHECK(cudaFree(d_labels));

  profile.host();
  Verdict verdict;
  Checksum checksum;
  for (size_t s = 0; s < kBatch; s += 16) {
    for (size_t k = 0; k < 8; k++) {
      size_t unit = random_below(hidden);
      double sum = 0;
      for (size_t i = 0; i < kInputs; i++)
        sum += double(samples[s * kInputs + i]) * w1[i * hidden + unit];
      verdict.expect("the first layer's unit", unit, a1[s * hidden + unit], sum > 0 ? sum : 0, 1e-3);
      double back = 0;
      for (size_t i = 0; i < kClasses; i++)
        back += double(errors[s * kClasses + i]) * w3[unit * kClasses + i];
      verdict.expect("the second layer's error", unit, e2[s * hidden + unit], a2[s * hidden + unit] > 0 ? back : 0, 1e-3);
    }
    for (size_t unit = 0; unit < kStrip; unit++) {
      double sum = 0;
      for (size_t i = 0; i < hidden; i++)
        sum += double(a1[s * hidden + i]) * w2_strip[i * kStrip + unit];
      verdict.expect("the second layer's unit", unit, a2[s * hidden + unit], sum > 0 ? sum : 0, 1e-3);
    }
    double back = 0, scores[kClasses], total = 0;
    for (size_t i = 0; i < hidden; i++)
      back += double(e2[s * hidden + i]) * w2_row[i];
    verdict.expect("the first layer's error", row, e1[s * hidden + row], a1[s * hidden + row] > 0 ? back : 0, 1e-3);
    for (size_t k = 0; k < kClasses; k++) {
      scores[k] = 0;
      for (size_t i = 0; i < hidden; i++)
        scores[k] += double(a2[s * hidden + i]) * w3[i * kClasses + k];
      total += exp(scores[k]);
    }
    for (size_t k = 0; k < kClasses; k++)
      verdict.expect("the probability of class", k, probabilities[s * kClasses + k], exp(scores[k]) / total, 1e-3);
  }
  for (size_t unit = 0; unit < hidden; unit++) {
    double gradient = 0;
    for (size_t s = 0; s < kBatch; s++)
      gradient += double(a1[s * hidden + row]) * e2[s * hidden + unit];
    double momentum = double(kMomentum) * v2_row[unit] + gradient / kBatch;
    verdict.expect("the second layer's new weight", row * hidden + unit, moved_row[unit], w2_row[unit] - rate * momentum, 1e-5);
  }
  // It has learned something, if it had the time to.
  verdict.expect_that("that the loss has become smaller", options.steps, options.steps < 50 || loss < 0.8 * first_loss);
  checksum.add(hidden);
  checksum.add_rounded(first_loss, 0.01);
  checksum.add_rounded(loss, 0.1);
  return verdict.finish(options, profile, checksum);
}
