// Pitched memory: rows of an image start at addresses that the hardware likes, so a row takes a little more than its
// pixels. Copies of rectangles take both pitches, the host's and the device's.
//
//   pitched [width] [height]
//
//#Args: width=301 height=97
//#Stdout: pitched: width=301 height=97 PASS
//#Static: 1
//#Peak: 2 * ((2 * width + 511) / 512 * 512) * height

#include "common.h"
#include <vector>

typedef unsigned short Pixel;

__device__ const Pixel *row_of(const Pixel *image, size_t pitch, unsigned y) {
  return reinterpret_cast<const Pixel *>(reinterpret_cast<const char *>(image) + y * pitch);
}

// Each pixel becomes the sum of itself and its four neighbours; beyond the edge there is darkness.
__global__ void blur(const Pixel *in, size_t in_pitch, Pixel *out, size_t out_pitch, unsigned width, unsigned height) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  const Pixel *row = row_of(in, in_pitch, y);
  unsigned sum = row[x];
  sum += x > 0 ? row[x - 1] : 0;
  sum += x + 1 < width ? row[x + 1] : 0;
  sum += y > 0 ? row_of(in, in_pitch, y - 1)[x] : 0;
  sum += y + 1 < height ? row_of(in, in_pitch, y + 1)[x] : 0;
  const_cast<Pixel *>(row_of(out, out_pitch, y))[x] = Pixel(sum);
}

int main(int argc, char **argv) {
  size_t width = positive_argument(argc, argv, 1, 301);
  size_t height = positive_argument(argc, argv, 2, 97);
  size_t row = width * sizeof(Pixel);
  std::vector<Pixel> image(width * height), result(width * height);
  for (size_t i = 0; i < width * height; i++)
    image[i] = Pixel(i * 31 % 10007);

  Pixel *in, *out;
  size_t in_pitch, out_pitch;
  CHECK(cudaMallocPitch(&in, &in_pitch, row, height));
  CHECK(cudaMallocPitch(&out, &out_pitch, row, height));
  CHECK(cudaMemset2D(out, out_pitch, 0xff, row, height));
  CHECK(cudaMemcpy2D(in, in_pitch, image.data(), row, row, height, cudaMemcpyHostToDevice));
  dim3 block(32, 4);
  dim3 grid(unsigned((width + 31) / 32), unsigned((height + 3) / 4));
  blur<<<grid, block>>>(in, in_pitch, out, out_pitch, unsigned(width), unsigned(height));
  CHECK_LAUNCH();
  CHECK(cudaMemcpy2D(result.data(), row, out, out_pitch, row, height, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));

  bool right = true;
  auto at = [&image, width, height](size_t x, size_t y) -> unsigned { return x < width && y < height ? image[y * width + x] : 0; };
  for (size_t y = 0; y < height; y++)
    for (size_t x = 0; x < width; x++) {
      // Left of 0 wraps to a huge number, which is outside as well.
      unsigned sum = at(x, y) + at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
      right = right && result[y * width + x] == Pixel(sum);
    }
  printf("pitched: width=%zu height=%zu ", width, height);
  return report(right);
}
