// cuSOLVER: a linear system by LU, with the workspace that it asks for.
#include "check.h"
#include <cusolverDn.h>

int main() {
  const int n = 256;
  std::vector<double> matrix(n * n), right(n);
  for (int column = 0; column < n; column++)
    for (int row = 0; row < n; row++) {
      double value = double((row * 7 + column * 3) % 11) / 11 + (row == column ? n : 0);
      matrix[column * n + row] = value;
      right[row] += value * (column + 1);
    }
  double *a = to_device(matrix), *b = to_device(right), *work;
  int *pivots, *info, bytes = 0;
  OK(cudaMalloc(&pivots, n * sizeof(int)));
  OK(cudaMalloc(&info, sizeof(int)));
  cusolverDnHandle_t handle;
  OK(cusolverDnCreate(&handle));
  OK(cusolverDnDgetrf_bufferSize(handle, n, n, a, n, &bytes));
  OK(cudaMalloc(&work, bytes * sizeof(double)));
  OK(cusolverDnDgetrf(handle, n, n, a, n, work, pivots, info));
  EXPECT(to_host(info, 1)[0] == 0);
  OK(cusolverDnDgetrs(handle, CUBLAS_OP_N, n, 1, a, n, pivots, b, n, info));
  auto found = to_host(b, n);
  for (int i = 0; i < n; i++)
    near(found[i], i + 1, 1e-9 * n);
  OK(cusolverDnDestroy(handle));
  for (void *each : {(void *)a, (void *)b, (void *)work, (void *)pivots, (void *)info})
    OK(cudaFree(each));
  printf("PASS\n");
}
