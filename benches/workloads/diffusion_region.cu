// Speckle-reducing anisotropic diffusion of a random matrix, whose noise is measured in a region, on the host.
//
//   diffusion_region SIZE [--steps N]     steps: iterations, default 2
//
// Host: a random number and its exponential for every pixel; in each iteration mean and variance of a region of 128 x 128.
// GPU, in each iteration: the matrix in, derivatives and diffusion coefficient, divergence and new matrix, the matrix out.
// Device memory: 24 bytes a pixel (the matrix, its coefficients, four derivatives).

#include "diffusion.h"

constexpr unsigned kSide = 16; // of a block
constexpr size_t kRegion = 128;

// Derivatives towards the four neighbours; at an edge the neighbour is the pixel itself. A block is a tile of 16 x 16, the
// grid is flat: the matrix may have more rows of tiles than a grid has in y.
__global__ void derive(const float *image, float *north, float *south, float *west, float *east, float *c, size_t rows,
                       size_t cols, float noise) {
  size_t tiles = cols / kSide;
  size_t row = blockIdx.x / tiles * kSide + threadIdx.y, col = blockIdx.x % tiles * kSide + threadIdx.x;
  size_t at = row * cols + col;
  float here = image[at];
  float n = (row > 0 ? image[at - cols] : here) - here;
  float s = (row + 1 < rows ? image[at + cols] : here) - here;
  float w = (col > 0 ? image[at - 1] : here) - here;
  float e = (col + 1 < cols ? image[at + 1] : here) - here;
  north[at] = n;
  south[at] = s;
  west[at] = w;
  east[at] = e;
  c[at] = coefficient(here, n, s, w, e, noise);
}

__global__ void diffuse(float *image, const float *north, const float *south, const float *west, const float *east,
                        const float *c, size_t rows, size_t cols) {
  size_t tiles = cols / kSide;
  size_t row = blockIdx.x / tiles * kSide + threadIdx.y, col = blockIdx.x % tiles * kSide + threadIdx.x;
  size_t at = row * cols + col;
  float below = row + 1 < rows ? c[at + cols] : c[at];
  float right = col + 1 < cols ? c[at + 1] : c[at];
  float divergence = c[at] * north[at] + below * south[at] + c[at] * west[at] + right * east[at];
  image[at] += 0.25f * kLambda * divergence;
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "diffusion_region", 2);
  Profile profile;
  const size_t cols = size_t(sqrt(double(options.bytes / 24))) / kSide * kSide;
  require(options, cols >= kRegion);
  const size_t rows = options.bytes / 24 / cols / kSide * kSide;
  require(options, rows >= kRegion);
  const size_t pixels = rows * cols, bytes = pixels * sizeof(float);

  HostArray<float> input(pixels), image(pixels);
  for (size_t i = 0; i < pixels; i++)
    input[i] = uniform();
  for (size_t i = 0; i < pixels; i++)
    image[i] = expf(input[i]);

  float *d_image, *d_c, *d_north, *d_south, *d_west, *d_east;
  profile.start();
  CHECK(cudaMalloc(&d_image, bytes));
  profile.memory();
  CHECK(cudaMalloc(&d_c, bytes));
  CHECK(cudaMalloc(&d_north, bytes));
  CHECK(cudaMalloc(&d_south, bytes));
  CHECK(cudaMalloc(&d_west, bytes));
  CHECK(cudaMalloc(&d_east, bytes));

  constexpr size_t kSamples = 2000;
  Verdict verdict;
  Checksum checksum;
  const unsigned blocks = unsigned(pixels / (kSide * kSide));
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    double sum = 0, squares = 0;
    for (size_t row = 0; row < kRegion; row++)
      for (size_t col = 0; col < kRegion; col++) {
        double value = image[row * cols + col];
        sum += value;
        squares += value * value;
      }
    double mean = sum / (kRegion * kRegion), variance = squares / (kRegion * kRegion) - mean * mean;
    float noise = float(variance / (mean * mean));
    checksum.add_rounded(noise, 1e-4);
    // Pixels of the edges too: every second lies on one.
    static size_t where[kSamples];
    static double expected[kSamples];
    Reference reference(image.data(), rows, cols, noise);
    for (size_t k = 0; k < kSamples; k++) {
      size_t row = k % 8 == 0 ? 0 : k % 8 == 4 ? rows - 1 : random_below(rows);
      size_t col = k % 8 == 2 ? 0 : k % 8 == 6 ? cols - 1 : random_below(cols);
      where[k] = row * cols + col;
      expected[k] = reference.next(row, col);
    }

    profile.copy_in(bytes);
    CHECK(cudaMemcpy(d_image, image.data(), bytes, cudaMemcpyHostToDevice));
    profile.kernels();
    derive<<<blocks, dim3(kSide, kSide)>>>(d_image, d_north, d_south, d_west, d_east, d_c, rows, cols, noise);
    CHECK_LAUNCH(derive);
    diffuse<<<blocks, dim3(kSide, kSide)>>>(d_image, d_north, d_south, d_west, d_east, d_c, rows, cols);
    CHECK_LAUNCH(diffuse);
    CHECK(cudaDeviceSynchronize());
    profile.copy_out(bytes);
    CHECK(cudaMemcpy(image.data(), d_image, bytes, cudaMemcpyDeviceToHost));

    profile.host();
    for (size_t k = 0; k < kSamples; k++) {
      verdict.expect("pixel", where[k], image[where[k]], expected[k], 1e-4);
      if (k % 50 == 0)
        checksum.add_rounded(image[where[k]], 1e-2);
    }
  }
  profile.memory();
  CHECK(cudaFree(d_image));
  CHECK(cudaFree(d_c));
  CHECK(cudaFree(d_north));
  CHECK(cudaFree(d_south));
  CHECK(cudaFree(d_west));
  CHECK(cudaFree(d_east));
  profile.host();
  return verdict.finish(options, profile, checksum);
}
