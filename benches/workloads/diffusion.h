// What both forms of speckle-reducing anisotropic diffusion (Yu and Acton, 2002) share: the coefficient, and one pixel's next
// value on the host, to check against.
#pragma once

#include "workload.h"

constexpr float kLambda = 0.5f; // how far a step goes

// How much flows from a pixel, from its value and its derivatives: less at edges than noise alone would have it.
__host__ __device__ inline float coefficient(float here, float north, float south, float west, float east, float noise) {
  float gradient = (north * north + south * south + west * west + east * east) / (here * here);
  float laplacian = (north + south + west + east) / here;
  float numerator = 0.5f * gradient - laplacian * laplacian / 16.0f;
  float denominator = 1.0f + 0.25f * laplacian;
  float speckle = numerator / (denominator * denominator);
  float c = 1.0f / (1.0f + (speckle - noise) / (noise * (1.0f + noise)));
  return c < 0.0f ? 0.0f : c > 1.0f ? 1.0f : c;
}

// What one pixel becomes, from the matrix before.
class Reference {
public:
  Reference(const float *image, size_t rows, size_t cols, float noise)
      : image(image), rows(rows), cols(cols), noise(noise) {}

  double next(size_t row, size_t col) const {
    Around here = around(row, col);
    double own = c(row, col), below = row + 1 < rows ? c(row + 1, col) : own, right = col + 1 < cols ? c(row, col + 1) : own;
    double divergence = own * here.north + below * here.south + own * here.west + right * here.east;
    return here.value + 0.25 * kLambda * divergence;
  }

private:
  struct Around {
    float value, north, south, west, east;
  };

  Around around(size_t row, size_t col) const {
    const float *at = image + row * cols + col;
    float here = *at;
    return {here, (row > 0 ? at[-ptrdiff_t(cols)] : here) - here, (row + 1 < rows ? at[cols] : here) - here,
            (col > 0 ? at[-1] : here) - here, (col + 1 < cols ? at[1] : here) - here};
  }
  float c(size_t row, size_t col) const {
    Around here = around(row, col);
    return coefficient(here.value, here.north, here.south, here.west, here.east, noise);
  }

  const float *image;
  size_t rows, cols;
  float noise;
};
