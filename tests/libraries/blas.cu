// cuBLAS: a product of matrices that a kernel of ours made, on a stream of ours, and a dot product of its result.
#include "check.h"
#include <cublas_v2.h>

__global__ void fill(float *matrix, int n, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * n)
    matrix[i] = float((i * step) % 7) - 3;
}

int main() {
  const int n = 512;
  float *a, *b, *c;
  OK(cudaMalloc(&a, n * n * sizeof(float)));
  OK(cudaMalloc(&b, n * n * sizeof(float)));
  OK(cudaMalloc(&c, n * n * sizeof(float)));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  fill<<<n * n / 256, 256, 0, stream>>>(a, n, 3);
  fill<<<n * n / 256, 256, 0, stream>>>(b, n, 5);
  cublasHandle_t handle;
  OK(cublasCreate(&handle));
  OK(cublasSetStream(handle, stream));
  const float one = 1, zero = 0;
  OK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
  float dot = 0;
  OK(cublasSdot(handle, n * n, c, 1, a, 1, &dot));
  OK(cudaStreamSynchronize(stream));
  auto x = to_host(a, n * n), y = to_host(b, n * n), found = to_host(c, n * n);
  double sum = 0;
  for (int column = 0; column < n; column++)
    for (int row = 0; row < n; row++) {
      double expected = 0;
      for (int k = 0; k < n; k++)
        expected += double(x[k * n + row]) * y[column * n + k];
      near(found[column * n + row], expected, 0.01);
      sum += expected * x[column * n + row];
    }
  near(dot, sum, std::fabs(sum) * 1e-4 + 1);
  OK(cublasDestroy(handle));
  OK(cudaFree(a));
  OK(cudaFree(b));
  OK(cudaFree(c));
  printf("PASS\n");
}
