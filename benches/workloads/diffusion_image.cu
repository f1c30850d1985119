// Speckle-reducing anisotropic diffusion of an image, whose noise is measured all over it, on the GPU.
//
//   diffusion_image SIZE [--steps N]     steps: iterations, default 100
//
// Host: the image, from a small one by repetition; in each iteration the noise from two sums; the result as a text image.
// GPU: the image in, to its exponentials; in each iteration values and squares, their sums by halves, the sums out,
// derivatives and coefficients, new image; at the end logarithms, the image out.
// Device memory: 32 bytes a pixel (the image, its coefficients, four derivatives, two of sums).

#include "diffusion.h"

constexpr unsigned kThreads = 512;
constexpr size_t kBaseRows = 502, kBaseCols = 458; // the small image

__global__ void extract(float *image, size_t pixels) {
  size_t at = size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at < pixels)
    image[at] = expf(image[at] / 255.0f);
}

__global__ void prepare(const float *image, float *sums, float *squares, size_t pixels) {
  size_t at = size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at < pixels) {
    sums[at] = image[at];
    squares[at] = image[at] * image[at];
  }
}

// Sums of up to 512 numbers that lie `stride` apart, into the first of them.
__global__ void reduce(float *sums, float *squares, size_t count, size_t stride) {
  __shared__ float sum[kThreads], square[kThreads];
  size_t i = size_t(blockIdx.x) * kThreads + threadIdx.x, at = i * stride;
  sum[threadIdx.x] = i < count ? sums[at] : 0.0f;
  square[threadIdx.x] = i < count ? squares[at] : 0.0f;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      sum[threadIdx.x] += sum[threadIdx.x + half];
      square[threadIdx.x] += square[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    sums[at] = sum[0];
    squares[at] = square[0];
  }
}

__global__ void derive(const float *image, float *north, float *south, float *west, float *east, float *c, size_t rows,
                       size_t cols, float noise) {
  size_t at = size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= rows * cols)
    return;
  size_t row = at / cols, col = at % cols;
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
  size_t at = size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= rows * cols)
    return;
  float below = at + cols < rows * cols ? c[at + cols] : c[at];
  float right = at % cols + 1 < cols ? c[at + 1] : c[at];
  float divergence = c[at] * north[at] + below * south[at] + c[at] * west[at] + right * east[at];
  image[at] += 0.25f * kLambda * divergence;
}

__global__ void compress(float *image, size_t pixels) {
  size_t at = size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (at < pixels)
    image[at] = logf(image[at]) * 255.0f;
}

// What is to be seen, and speckle on it: a disc and its surroundings.
static float base_pixel(size_t row, size_t col) {
  double down = double(row) / kBaseRows - 0.5, right = double(col) / kBaseCols - 0.5;
  return (down * down + right * right < 0.1 ? 170.0f : 80.0f) * (0.7f + 0.6f * uniform());
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "diffusion_image", 100);
  Profile profile;
  const size_t cols = size_t(sqrt(double(options.bytes / 32)));
  require(options, cols >= 16);
  const size_t rows = options.bytes / 32 / cols, pixels = rows * cols, bytes = pixels * sizeof(float);
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);

  HostArray<float> base(kBaseRows * kBaseCols), image(pixels);
  for (size_t row = 0; row < kBaseRows; row++)
    for (size_t col = 0; col < kBaseCols; col++)
      base[row * kBaseCols + col] = base_pixel(row, col);
  for (size_t row = 0; row < rows; row++)
    for (size_t col = 0; col < cols; col++)
      image[row * cols + col] = base[row % kBaseRows * kBaseCols + col % kBaseCols];

  float *d_image, *d_c, *d_north, *d_south, *d_west, *d_east, *d_sums, *d_squares;
  profile.start();
  CHECK(cudaMalloc(&d_image, bytes));
  profile.memory();
  CHECK(cudaMalloc(&d_sums, bytes));
  CHECK(cudaMalloc(&d_squares, bytes));
  CHECK(cudaMalloc(&d_north, bytes));
  CHECK(cudaMalloc(&d_south, bytes));
  CHECK(cudaMalloc(&d_west, bytes));
  CHECK(cudaMalloc(&d_east, bytes));
  CHECK(cudaMalloc(&d_c, bytes));
  profile.copy_in(bytes);
  CHECK(cudaMemcpy(d_image, image.data(), bytes, cudaMemcpyHostToDevice));
  profile.kernels();
  const unsigned blocks = unsigned((pixels + kThreads - 1) / kThreads);
  extract<<<blocks, kThreads>>>(d_image, pixels);
  CHECK_LAUNCH(extract);

  Verdict verdict;
  Checksum checksum;
  float noise = 0;
  HostArray<float> result(pixels);
  for (size_t step = 0; step < options.steps; step++) {
    profile.kernels();
    prepare<<<blocks, kThreads>>>(d_image, d_sums, d_squares, pixels);
    CHECK_LAUNCH(prepare);
    for (size_t count = pixels, stride = 1; count > 1; count = (count + kThreads - 1) / kThreads, stride *= kThreads) {
      reduce<<<unsigned((count + kThreads - 1) / kThreads), kThreads>>>(d_sums, d_squares, count, stride);
      CHECK_LAUNCH(reduce);
    }
    CHECK(cudaDeviceSynchronize());
    float sum, squares;
    profile.copy_out(2 * sizeof(float));
    CHECK(cudaMemcpy(&sum, d_sums, sizeof sum, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&squares, d_squares, sizeof squares, cudaMemcpyDeviceToHost));
    profile.host();
    double mean = double(sum) / double(pixels), variance = double(squares) / double(pixels) - mean * mean;
    noise = float(variance / (mean * mean));
    if (step == 0) {
      // Each pixel of the small image is there as often as rows and columns have it.
      double expected = 0;
      for (size_t row = 0; row < kBaseRows; row++)
        for (size_t col = 0; col < kBaseCols; col++)
          expected += exp(base[row * kBaseCols + col] / 255.0) * double(rows / kBaseRows + (row < rows % kBaseRows)) *
                      double(cols / kBaseCols + (col < cols % kBaseCols));
      verdict.expect("the mean of image", 0, mean, expected / double(pixels), 1e-4);
      checksum.add_rounded(noise, 1e-4);
    }
    // The last iteration is followed on the host, from what was there before it.
    if (step + 1 == options.steps) {
      profile.copy_out(bytes);
      CHECK(cudaMemcpy(image.data(), d_image, bytes, cudaMemcpyDeviceToHost));
    }
    profile.kernels();
    derive<<<blocks, kThreads>>>(d_image, d_north, d_south, d_west, d_east, d_c, rows, cols, noise);
    CHECK_LAUNCH(derive);
    diffuse<<<blocks, kThreads>>>(d_image, d_north, d_south, d_west, d_east, d_c, rows, cols);
    CHECK_LAUNCH(diffuse);
  }
  compress<<<blocks, kThreads>>>(d_image, pixels);
  CHECK_LAUNCH(compress);
  CHECK(cudaDeviceSynchronize());
  profile.copy_out(bytes);
  CHECK(cudaMemcpy(result.data(), d_image, bytes, cudaMemcpyDeviceToHost));
  profile.memory();
  CHECK(cudaFree(d_image));
  CHECK(cudaFree(d_sums));
  CHECK(cudaFree(d_squares));
  CHECK(cudaFree(d_north));
  CHECK(cudaFree(d_south));
  CHECK(cudaFree(d_west));
  CHECK(cudaFree(d_east));
  CHECK(cudaFree(d_c));

  profile.host();
  Reference reference(image.data(), rows, cols, noise);
  for (size_t k = 0; k < 2000; k++) {
    // Pixels of the edges too: every second lies on one.
    size_t row = k % 8 == 0 ? 0 : k % 8 == 4 ? rows - 1 : random_below(rows);
    size_t col = k % 8 == 2 ? 0 : k % 8 == 6 ? cols - 1 : random_below(cols);
    double expected = log(reference.next(row, col)) * 255;
    verdict.expect("pixel", row * cols + col, result[row * cols + col], expected, 1e-3);
    if (k % 50 == 1)
      checksum.add_rounded(result[row * cols + col], 1);
  }
  fprintf(output, "P2\n%zu %zu\n255\n", cols, rows);
  for (size_t row = 0; row < rows; row++) {
    for (size_t col = 0; col < cols; col++)
      fprintf(output, "%d ", int(result[row * cols + col]));
    fputc('\n', output);
  }
  fclose(output);
  return verdict.finish(options, profile, checksum);
}
