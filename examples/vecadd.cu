// Vector addition: three arrays, one kernel. The smallest whole GPU task: allocate, copy in, launch, copy out, free.
//
//   vecadd [n]
//
//#Args: n=100000
//#Stdout: vecadd: n=100000 PASS
//#Static: 1
//#Peak: 3 * 4 * n

#include "common.h"
#include <vector>

__global__ void add(const float *a, const float *b, float *c, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    c[i] = a[i] + b[i];
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 100000);
  size_t bytes = n * sizeof(float);
  std::vector<float> a(n), b(n), c(n);
  for (size_t i = 0; i < n; i++) {
    a[i] = float(i % 1000);
    b[i] = float(2 * (i % 77));
  }

  float *da, *db, *dc;
  CHECK(cudaMalloc(&da, bytes));
  CHECK(cudaMalloc(&db, bytes));
  CHECK(cudaMalloc(&dc, bytes));
  CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(da));
  CHECK(cudaFree(db));
  CHECK(cudaFree(dc));

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && c[i] == a[i] + b[i];
  printf("vecadd: n=%zu ", n);
  return report(right);
}
