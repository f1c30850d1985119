// Two independent tasks in one program: they share no array, so each may be placed on a GPU of its own.
//
//   twotasks [n] [m]
//
//#Args: n=40000 m=30000
//#Stdout: twotasks: n=40000 m=30000 PASS
//#Static: 2
//#Peak: 2 * 4 * n
//#Peak: 8 * m

#include "common.h"
#include <vector>

__global__ void saxpy(float a, const float *x, float *y, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = a * x[i] + y[i];
}

__global__ void squares(unsigned long long *out, size_t m) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < m)
    out[i] = static_cast<unsigned long long>(i) * i;
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 40000);
  size_t m = count_argument(argc, argv, 2, 30000);
  std::vector<float> x(n), y(n);
  std::vector<unsigned long long> square(m);
  for (size_t i = 0; i < n; i++) {
    x[i] = float(i % 1024);
    y[i] = float(i % 7);
  }

  float *dx, *dy;
  CHECK(cudaMalloc(&dx, n * sizeof(float)));
  CHECK(cudaMalloc(&dy, n * sizeof(float)));
  CHECK(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  saxpy<<<(n + 255) / 256, 256>>>(3.0f, dx, dy, n);
  CHECK_LAUNCH();

  unsigned long long *ds;
  CHECK(cudaMalloc(&ds, m * sizeof(unsigned long long)));
  squares<<<(m + 63) / 64, 64>>>(ds, m);
  CHECK_LAUNCH();

  CHECK(cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(square.data(), ds, m * sizeof(unsigned long long), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(dx));
  CHECK(cudaFree(dy));
  CHECK(cudaFree(ds));

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && y[i] == 3.0f * float(i % 1024) + float(i % 7);
  for (size_t i = 0; i < m; i++)
    right = right && square[i] == static_cast<unsigned long long>(i) * i;
  printf("twotasks: n=%zu m=%zu ", n, m);
  return report(right);
}
