// Two kernels in a chain: `doubled` is written by the first and read by the second, so both are one task and must
// run on one GPU. The input is freed between them: the peak is what lives at once, not the sum of everything.
//
//   chain [n]
//
//#Args: n=50000
//#Stdout: chain: n=50000 PASS
//#Static: 1
//#Peak: 2 * 4 * n

#include "common.h"
#include <vector>

__global__ void twice(const int *in, int *doubled, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    doubled[i] = 2 * in[i];
}

__global__ void add_one(const int *doubled, int *out, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = doubled[i] + 1;
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 50000);
  size_t bytes = n * sizeof(int);
  unsigned blocks = (n + 127) / 128;
  std::vector<int> host(n);
  for (size_t i = 0; i < n; i++)
    host[i] = int(i % 100003);

  int *in, *doubled, *out;
  CHECK(cudaMalloc(&in, bytes));
  CHECK(cudaMalloc(&doubled, bytes));
  CHECK(cudaMemcpy(in, host.data(), bytes, cudaMemcpyHostToDevice));
  twice<<<blocks, 128>>>(in, doubled, n);
  CHECK_LAUNCH();
  CHECK(cudaFree(in));

  CHECK(cudaMalloc(&out, bytes));
  add_one<<<blocks, 128>>>(doubled, out, n);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(host.data(), out, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(doubled));
  CHECK(cudaFree(out));

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && host[i] == 2 * int(i % 100003) + 1;
  printf("chain: n=%zu ", n);
  return report(right);
}
