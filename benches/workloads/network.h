// What the neural networks share: matrix products by tiles, and a convolutional stem of two layers (columns of the image,
// product, pooling), on the GPU and, for checks, on the host.
//
// Maps lie as [channel][image][row][column], so that a convolution of a whole batch is one product.
#pragma once

#include "workload.h"
#include <vector>

// A matrix with any strides: a transposed one has them turned.
struct Matrix {
  const float *values;
  size_t row, col;
};

constexpr unsigned kSide = 64, kDepth = 16; // of a block's tile of the result, and of what it takes at a time

// result = keep * result + factor * a * b, with a of m x k, b of k x n; then negatives to zero if asked for. A block of
// 16 x 16 threads makes 64 x 64 results, a thread 4 x 4. The grid is flat.
__global__ void multiply(Matrix a, Matrix b, float *result, size_t m, size_t n, size_t k, float keep, float factor, bool rectify) {
  __shared__ float left[kDepth][kSide + 1], right[kDepth][kSide + 1];
  size_t tiles = (n + kSide - 1) / kSide;
  size_t first_row = blockIdx.x / tiles * kSide, first_col = blockIdx.x % tiles * kSide;
  unsigned tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
  float sums[4][4] = {};
  for (size_t depth = 0; depth < k; depth += kDepth) {
    for (unsigned i = thread; i < kSide * kDepth; i += 256) {
      // Neighbouring threads read neighbouring values, whichever way a matrix lies.
      unsigned al = a.col == 1 ? i / kDepth : i % kSide, ad = a.col == 1 ? i % kDepth : i / kSide;
      unsigned bl = b.col == 1 ? i % kSide : i / kDepth, bd = b.col == 1 ? i / kSide : i % kDepth;
      size_t row = first_row + al, col = first_col + bl;
      left[ad][al] = row < m && depth + ad < k ? a.values[row * a.row + (depth + ad) * a.col] : 0.0f;
      right[bd][bl] = col < n && depth + bd < k ? b.values[(depth + bd) * b.row + col * b.col] : 0.0f;
    }
    __syncthreads();
    for (unsigned d = 0; d < kDepth; d++)
      for (unsigned y = 0; y < 4; y++)
        for (unsigned x = 0; x < 4; x++)
          sums[y][x] += left[d][ty + 16 * y] * right[d][tx + 16 * x];
    __syncthreads();
  }
  for (unsigned y = 0; y < 4; y++)
    for (unsigned x = 0; x < 4; x++) {
      size_t row = first_row + ty + 16 * y, col = first_col + tx + 16 * x;
      if (row >= m || col >= n)
        continue;
      float value = factor * sums[y][x] + (keep != 0.0f ? keep * result[row * n + col] : 0.0f);
      result[row * n + col] = rectify && value < 0.0f ? 0.0f : value;
    }
}

inline unsigned tiles_of(size_t m, size_t n) { return unsigned((m + kSide - 1) / kSide * ((n + kSide - 1) / kSide)); }

// Bytes of pixels, as [image][row][column][channel], to numbers around zero in a map of three channels.
__global__ void normalise(const unsigned char *pixels, float *map, size_t count) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count)
    for (size_t channel = 0; channel < 3; channel++)
      map[channel * count + at] = (float(pixels[at * 3 + channel]) - 127.5f) / 127.5f;
}

// A row of `columns` for each of a channel's 3 x 3 neighbours, a column for each pixel of all images. Zero outside.
__global__ void unfold(const float *map, float *columns, size_t channels, size_t images, size_t height, size_t width) {
  size_t pixels = images * height * width;
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= pixels)
    return;
  size_t row = at / width % height, col = at % width;
  for (size_t channel = 0; channel < channels; channel++)
    for (size_t k = 0; k < 9; k++) {
      // Unsigned: what lies before the first row or column is beyond the last.
      size_t y = row + k / 3 - 1, x = col + k % 3 - 1;
      bool inside = y < height && x < width;
      columns[(channel * 9 + k) * pixels + at] = inside ? map[channel * pixels + at + (k / 3) * width + k % 3 - width - 1] : 0.0f;
    }
}

// The largest of each 2 x 2 of `maps` maps of height x width, both even.
__global__ void pool(const float *map, float *pooled, size_t maps, size_t height, size_t width) {
  size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= maps * (height / 2) * (width / 2))
    return;
  size_t col = at % (width / 2), row = at / (width / 2); // of all maps, one below the other
  const float *corner = map + 2 * row * width + 2 * col;
  pooled[at] = fmaxf(fmaxf(corner[0], corner[1]), fmaxf(corner[width], corner[width + 1]));
}

inline unsigned blocks_of(size_t threads) { return unsigned((threads + 255) / 256); }

// Random weights that keep the size of what passes through a layer with `inputs` inputs a unit.
inline std::vector<float> random_weights(size_t count, size_t inputs) {
  std::vector<float> weights(count);
  float scale = 2.0f * sqrtf(6.0f / float(inputs));
  for (float &weight : weights)
    weight = (uniform() - 0.5f) * scale;
  return weights;
}

// Two layers of the stem on one image, on the host: [channel][row][column], a quarter as high and wide as the image.
class HostStem {
public:
  HostStem(const std::vector<float> &first, const std::vector<float> &second) : first(first), second(second) {}

  // `pixels` as [row][column][channel], rows `pitch` bytes apart.
  std::vector<double> run(const unsigned char *pixels, size_t height, size_t width, size_t pitch) const {
    std::vector<double> map(3 * height * width);
    for (size_t channel = 0; channel < 3; channel++)
      for (size_t row = 0; row < height; row++)
        for (size_t col = 0; col < width; col++)
          map[(channel * height + row) * width + col] = (pixels[row * pitch + col * 3 + channel] - 127.5) / 127.5;
    return layer(layer(map, first, height, width), second, height / 2, width / 2);
  }

private:
  static std::vector<double> layer(const std::vector<double> &map, const std::vector<float> &weights, size_t height,
                                   size_t width) {
    size_t channels = map.size() / (height * width), kernels = weights.size() / (9 * channels);
    std::vector<double> pooled(kernels * (height / 2) * (width / 2), 0.0);
    for (size_t kernel = 0; kernel < kernels; kernel++)
      for (size_t row = 0; row < height; row++)
        for (size_t col = 0; col < width; col++) {
          double sum = 0;
          for (size_t channel = 0; channel < channels; channel++)
            for (size_t k = 0; k < 9; k++) {
              size_t y = row + k / 3 - 1, x = col + k % 3 - 1;
              if (y < height && x < width)
                sum += weights[(kernel * channels + channel) * 9 + k] * map[(channel * height + y) * width + x];
            }
          // Beginning at zero, the largest is rectified as well.
          double &largest = pooled[(kernel * (height / 2) + row / 2) * (width / 2) + col / 2];
          largest = sum > largest ? sum : largest;
        }
    return pooled;
  }

  const std::vector<float> &first, &second;
};
