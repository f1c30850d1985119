// Two-dimensional wavelet transform (the reversible 5/3 of JPEG 2000) of a colour image, several levels.
//
//   wavelet SIZE [--steps N]     steps: images, default 4
//
// Host, for each image: its pixels, from a small random one by repetition; each component's coefficients to bytes, written out.
// GPU, for each image: pixels in, to components, for each of them and each of three levels rows and then columns, out.
// Device memory: 31 bytes a pixel (three bytes, three components, their coefficients, one buffer). Pinned host memory: 7.

#include "workload.h"

constexpr size_t kLevels = 3, kBase = 512; // side of the image that is repeated
constexpr size_t kAlign = size_t(1) << kLevels;

__global__ void separate(const unsigned char *pixels, int *red, int *green, int *blue, size_t count) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count) {
    red[at] = int(pixels[3 * at]) - 128;
    green[at] = int(pixels[3 * at + 1]) - 128;
    blue[at] = int(pixels[3 * at + 2]) - 128;
  }
}

// Beyond an end the signal goes back: what follows the last value is the last but one.
__host__ __device__ inline size_t mirrored(size_t i, size_t count) { return i < count ? i : 2 * (count - 1) - i; }

// Detail k of `count` values (an even number) that lie `stride` apart.
__host__ __device__ inline int detail(const int *values, size_t k, size_t count, size_t stride) {
  return values[(2 * k + 1) * stride] -
         ((values[2 * k * stride] + values[mirrored(2 * k + 2, count) * stride]) >> 1);
}

// What is left of value 2 k when the details are taken out. The first one's neighbour before it is the one after it.
__host__ __device__ inline int smooth(const int *values, size_t k, size_t count, size_t stride) {
  int after = detail(values, k, count, stride), before = k == 0 ? after : detail(values, k - 1, count, stride);
  return values[2 * k * stride] + ((before + after + 2) >> 2);
}

// Of the corner of rows x cols of a component: all of its rows, smooth halves to the left.
__global__ void transform_rows(const int *in, int *out, size_t rows, size_t cols, size_t pitch) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * (cols / 2))
    return;
  size_t row = at / (cols / 2), k = at % (cols / 2);
  out[row * pitch + k] = smooth(in + row * pitch, k, cols, 1);
  out[row * pitch + cols / 2 + k] = detail(in + row * pitch, k, cols, 1);
}

// All of its columns, smooth halves at the top.
__global__ void transform_columns(const int *in, int *out, size_t rows, size_t cols, size_t pitch) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows / 2 * cols)
    return;
  size_t k = at / cols, col = at % cols;
  out[k * pitch + col] = smooth(in + col, k, rows, pitch);
  out[(rows / 2 + k) * pitch + col] = detail(in + col, k, rows, pitch);
}

inline unsigned blocks_of(size_t threads) { return unsigned((threads + 255) / 256); }

// The first level reads the component, those after it what the one before left.
static void transform(const int *component, int *buffer, int *coefficients, size_t rows, size_t cols) {
  for (size_t level = 0; level < kLevels; level++) {
    size_t height = rows >> level, width = cols >> level;
    transform_rows<<<blocks_of(height * (width / 2)), 256>>>(level == 0 ? component : coefficients, buffer, height, width, cols);
    CHECK_LAUNCH(transform_rows);
    transform_columns<<<blocks_of(height / 2 * width), 256>>>(buffer, coefficients, height, width, cols);
    CHECK_LAUNCH(transform_columns);
  }
}

// The image on the host, and what its coefficients must be: patches that are transformed by themselves, and compared where
// their edges make no difference.
constexpr size_t kPatch = 128, kMargin = 32;

static void check_patch(Verdict &verdict, Checksum &checksum, const unsigned char *pixels, const int *coefficients, size_t rows,
                        size_t cols, unsigned component, size_t top, size_t left) {
  static int patch[kPatch * kPatch], buffer[kPatch * kPatch];
  for (size_t row = 0; row < kPatch; row++)
    for (size_t col = 0; col < kPatch; col++)
      patch[row * kPatch + col] = int(pixels[3 * ((top + row) * cols + left + col) + component]) - 128;
  for (size_t level = 0; level < kLevels; level++) {
    size_t side = kPatch >> level;
    for (size_t row = 0; row < side; row++)
      for (size_t k = 0; k < side / 2; k++) {
        buffer[row * kPatch + k] = smooth(patch + row * kPatch, k, side, 1);
        buffer[row * kPatch + side / 2 + k] = detail(patch + row * kPatch, k, side, 1);
      }
    for (size_t col = 0; col < side; col++)
      for (size_t k = 0; k < side / 2; k++) {
        patch[k * kPatch + col] = smooth(buffer + col, k, side, kPatch);
        patch[(side / 2 + k) * kPatch + col] = detail(buffer + col, k, side, kPatch);
      }
  }
  for (size_t level = 1; level <= kLevels; level++)
    for (unsigned band = level == kLevels ? 0 : 1; band < 4; band++) {
      // Bands lie side by side: in the second half of the rows or columns where a detail is meant.
      size_t half = kPatch >> level, down = band / 2, right = band % 2;
      // At the image's own edges the patch ends as the image does.
      size_t first_row = top == 0 ? 0 : kMargin >> level, last_row = top + kPatch == rows ? half : half - (kMargin >> level);
      size_t first_col = left == 0 ? 0 : kMargin >> level, last_col = left + kPatch == cols ? half : half - (kMargin >> level);
      for (size_t row = first_row; row < last_row; row++)
        for (size_t col = first_col; col < last_col; col++) {
          size_t at = ((down ? rows >> level : 0) + (top >> level) + row) * cols + (right ? cols >> level : 0) + (left >> level) + col;
          verdict.expect_that("the coefficient", at, coefficients[at] == patch[(down * half + row) * kPatch + right * half + col]);
          checksum.add(uint64_t(coefficients[at]));
        }
    }
}

int main(int argc, char **argv) {
  Options options = read_options(argc, argv, "wavelet", 4);
  Profile profile;
  const size_t cols = size_t(sqrt(double(options.bytes / 31))) / kAlign * kAlign;
  require(options, cols >= kPatch);
  const size_t rows = options.bytes / 31 / cols / kAlign * kAlign;
  require(options, rows >= kPatch);
  const size_t count = rows * cols, bytes = count * sizeof(int);
  FILE *output = fopen(options.output, "w");
  if (output == nullptr)
    usage_error(options.name, "failed to open for writing", options.output);
  static unsigned char base[kBase * kBase * 3];
  for (unsigned char &value : base)
    value = (unsigned char)rand();

  unsigned char *pixels, *d_pixels;
  int *coefficients, *d_red, *d_green, *d_blue, *d_red_out, *d_green_out, *d_blue_out, *d_buffer;
  profile.start();
  CHECK(cudaMallocHost(&pixels, 3 * count));
  profile.memory();
  CHECK(cudaMalloc(&d_pixels, 3 * count));
  CHECK(cudaMalloc(&d_red, bytes));
  CHECK(cudaMalloc(&d_green, bytes));
  CHECK(cudaMalloc(&d_blue, bytes));
  CHECK(cudaMalloc(&d_red_out, bytes));
  CHECK(cudaMalloc(&d_green_out, bytes));
  CHECK(cudaMalloc(&d_blue_out, bytes));
  CHECK(cudaMalloc(&d_buffer, bytes));
  Verdict verdict;
  Checksum checksum;
  for (size_t step = 0; step < options.steps; step++) {
    profile.host();
    // Each image is another cut of the repeated one.
    size_t shift = random_below(kBase);
    for (size_t row = 0; row < rows; row++)
      for (size_t col = 0; col < cols; col++) {
        const unsigned char *from = &base[((row + shift) % kBase * kBase + (col + shift * row / kBase) % kBase) * 3];
        for (unsigned component = 0; component < 3; component++)
          pixels[(row * cols + col) * 3 + component] = from[component];
      }
    profile.copy_in(3 * count);
    CHECK(cudaMemcpy(d_pixels, pixels, 3 * count, cudaMemcpyHostToDevice));
    profile.kernels();
    separate<<<blocks_of(count), 256>>>(d_pixels, d_red, d_green, d_blue, count);
    CHECK_LAUNCH(separate);
    transform(d_red, d_buffer, d_red_out, rows, cols);
    transform(d_green, d_buffer, d_green_out, rows, cols);
    transform(d_blue, d_buffer, d_blue_out, rows, cols);
    CHECK(cudaDeviceSynchronize());

    for (unsigned component = 0; component < 3; component++) {
      profile.memory();
      CHECK(cudaMallocHost(&coefficients, bytes));
      profile.copy_out(bytes);
      CHECK(cudaMemcpy(coefficients, component == 0 ? d_red_out : component == 1 ? d_green_out : d_blue_out, bytes,
                       cudaMemcpyDeviceToHost));
      profile.host();
      HostArray<unsigned char> shown(count);
      for (size_t i = 0; i < count; i++) {
        int value = coefficients[i] + 128;
        shown[i] = (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
      }
      fwrite(shown.data(), 1, count, output);
      for (unsigned k = 0; k < 8; k++) {
        size_t last_row = rows - kPatch, last_col = cols - kPatch;
        size_t top = k < 4 ? k / 2 * last_row : random_below(last_row / kAlign + 1) * kAlign;
        size_t left = k < 4 ? k % 2 * last_col : random_below(last_col / kAlign + 1) * kAlign;
        check_patch(verdict, checksum, pixels, coefficients, rows, cols, component, top, left);
      }
      profile.memory();
      CHECK(cudaFreeHost(coefficients));
    }
  }
  profile.memory();
  CHECK(cudaFree(d_pixels));
  CHECK(cudaFree(d_red));
  CHECK(cudaFree(d_green));
  CHECK(cudaFree(d_blue));
  CHECK(cudaFree(d_red_out));
  CHECK(cudaFree(d_green_out));
  CHECK(cudaFree(d_blue_out));
  CHECK(cudaFree(d_buffer));
  CHECK(cudaFreeHost(pixels));
  profile.host();
  fclose(output);
  return verdict.finish(options, profile, checksum);
}
