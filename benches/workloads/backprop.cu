// Back-propagation: one hidden layer of 16 units over a very long input, trained by gradient descent with momentum.
//
//   backprop SIZE [--steps N]     steps: passes forward and back, default 1
//
// Host: a random number for every input and weight; the sums of the blocks' partial sums, the output unit, the errors.
// GPU: partial sums of the hidden units (forward), new weights (adjust).
// Device memory: 132 bytes an input (input, 16 weights, 16 momenta), 64 for each 256 inputs, 64.

#include "workload.h"

constexpr unsigned kHidden = 16, kRows = 256; // inputs of a block
constexpr float kRate = 0.3f, kMomentum = 0.3f;

// A block sums 256 inputs times their weights: thread (x, y) takes hidden unit x and every sixteenth input.
__global__ void forward(const float *input, const float *weights, float *partial, size_t inputs) {
  __shared__ float sums[16][kHidden];
  size_t first = size_t(blockIdx.x) * kRows;
  float sum = 0;
  for (unsigned row = threadIdx.y; row < kRows; row += 16)
    if (first + row < inputs)
      sum += input[first + row] * weights[(first + row) * kHidden + threadIdx.x];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = 8; half > 0; half /= 2) {
    if (threadIdx.y < half)
      sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0)
    partial[size_t(blockIdx.x) * kHidden + threadIdx.x] = sums[0][threadIdx.x];
}

__global__ void adjust(const float *input, const float *delta, float *weights, float *momenta, size_t inputs) {
  size_t row = size_t(blockIdx.x) * 16 + threadIdx.y;
  if (row >= inputs)
    return;
  size_t at = row * kHidden + threadIdx.x;
  float change = kRate * delta[threadIdx.x] * input[row] + kMomentum * momenta[at];
  weights[at] += change;
  momenta[at] = change;
}

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "backprop", 1);
  Profile profile;
  require(options, options.bytes >= 64 * 1024);
  // A quarter of a byte for the partial sums; what is left is for a last block that is not full, and the errors.
  const size_t inputs = (options.bytes - 128) * 4 / 529, steps = options.steps;
  const size_t blocks = (inputs + kRows - 1) / kRows;

  HostArray<float> input(inputs), weights(inputs * kHidden), momenta(inputs * kHidden), partial(blocks * kHidden);
  // Small enough that the sums stay where a sigmoid has a slope.
  const float scale = 2.0f / sqrtf(float(inputs));
  for (size_t i = 0; i < inputs; i++) {
    input[i] = uniform();
    for (unsigned j = 0; j < kHidden; j++) {
      weights[i * kHidden + j] = (uniform() - 0.5f) * scale;
      momenta[i * kHidden + j] = 0;
    }
  }
  double out_weights[kHidden];
  for (unsigned j = 0; j < kHidden; j++)
    out_weights[j] = uniform() - 0.5f;

  // What the first pass must give, and where the weights that are followed begin.
  constexpr size_t kFollowed = 1024;
  double expected[kHidden] = {}, followed[kFollowed], followed_momentum[kFollowed] = {};
  for (size_t i = 0; i < inputs; i++)
    for (unsigned j = 0; j < kHidden; j++)
      expected[j] += double(input[i]) * weights[i * kHidden + j];
  const size_t stride = inputs * kHidden / kFollowed;
  for (size_t k = 0; k < kFollowed; k++)
    followed[k] = weights[k * stride];

  float *d_input, *d_weights, *d_momenta, *d_partial, *d_delta;
  profile.start();
  CHECK(cudaMalloc(&d_input, inputs * sizeof(float)));
  profile.memory();
  CHECK(cudaMalloc(&d_weights, inputs * kHidden * sizeof(float)));
  CHECK(cudaMalloc(&d_momenta, inputs * kHidden * sizeof(float)));
  CHECK(cudaMalloc(&d_partial, blocks * kHidden * sizeof(float)));
  CHECK(cudaMalloc(&d_delta, kHidden * sizeof(float)));
  profile.copy_in(inputs * 33 * sizeof(float));
  CHECK(cudaMemcpy(d_input, input.data(), inputs * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_weights, weights.data(), inputs * kHidden * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_momenta, momenta.data(), inputs * kHidden * sizeof(float), cudaMemcpyHostToDevice));

  Verdict verdict;
  Checksum checksum;
  for (size_t step = 0; step < steps; step++) {
    profile.kernels();
    forward<<<unsigned(blocks), dim3(16, 16)>>>(d_input, d_weights, d_partial, inputs);
    CHECK_LAUNCH(forward);
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(blocks * kHidden * sizeof(float));
    CHECK(cudaMemcpy(partial.data(), d_partial, blocks * kHidden * sizeof(float), cudaMemcpyDeviceToHost));

    profile.host();
    double hidden[kHidden] = {};
    for (size_t block = 0; block < blocks; block++)
      for (unsigned j = 0; j < kHidden; j++)
        hidden[j] += partial[block * kHidden + j];
    double out = 0;
    for (unsigned j = 0; j < kHidden; j++) {
      if (step == 0)
        verdict.expect("the sum of hidden unit", j, hidden[j], expected[j], 1e-4);
      hidden[j] = sigmoid(hidden[j]);
      checksum.add_rounded(hidden[j], 1e-3);
      out += hidden[j] * out_weights[j];
    }
    out = sigmoid(out);
    double out_delta = out * (1 - out) * (0.9 - out);
    float delta[kHidden];
    for (unsigned j = 0; j < kHidden; j++) {
      delta[j] = float(hidden[j] * (1 - hidden[j]) * out_delta * out_weights[j]);
      out_weights[j] += kRate * out_delta * hidden[j];
    }
    for (size_t k = 0; k < kFollowed; k++) {
      size_t at = k * stride;
      double change = double(kRate) * delta[at % kHidden] * input[at / kHidden] + double(kMomentum) * followed_momentum[k];
      followed[k] += change;
      followed_momentum[k] = change;
    }

    profile.copy_in(sizeof delta);
    CHECK(cudaMemcpy(d_delta, delta, sizeof delta, cudaMemcpyHostToDevice));
    profile.kernels();
    adjust<<<unsigned((inputs + 15) / 16), dim3(16, 16)>>>(d_input, d_delta, d_weights, d_momenta, inputs);
    CHECK_LAUNCH(adjust);
    CHECK(cudaDeviceSynchronize());
  }
  profile.copy_out(inputs * kHidden * sizeof(float));
  CHECK(cudaMemcpy(weights.data(), d_weights, inputs * kHidden * sizeof(float), cudaMemcpyDeviceToHost));
  profile.memory();
  CHECK(cudaFree(d_input));
  CHECK(cudaFree(d_weights));
  CHECK(cudaFree(d_momenta));
  CHECK(cudaFree(d_partial));
  CHECK(cudaFree(d_delta));

  profile.host();
  // Relative to what the weights are, and to what a step changes.
  for (size_t k = 0; k < kFollowed; k++)
    verdict.expect("weight (scaled)", k * stride, weights[k * stride] / scale, followed[k] / scale, 1e-4);
  return verdict.finish(options, profile, checksum);
}
