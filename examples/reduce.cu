// A block reduction: each block sums its part in shared memory between barriers, then adds it to the total by one
// atomic operation.
//
//   reduce [n] [repetitions]
//
//#Args: n=100000 repetitions=2
//#Stdout: reduce: n=100000 repetitions=2 PASS
//#Static: 1
//#Peak: 4 * n + 8

#include "common.h"
#include <vector>

constexpr unsigned kThreads = 128;

__global__ void reduce(const unsigned *values, size_t n, unsigned long long *total) {
  __shared__ unsigned long long partial[kThreads];
  unsigned long long sum = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    sum += values[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    atomicAdd(total, partial[0]);
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 100000);
  size_t repetitions = count_argument(argc, argv, 2, 2);
  std::vector<unsigned> values(n);
  unsigned long long expected = 0;
  for (size_t i = 0; i < n; i++) {
    values[i] = unsigned(i * 2654435761u);
    expected += values[i];
  }

  unsigned *device_values;
  unsigned long long *device_total;
  unsigned long long total = 0;
  CHECK(cudaMalloc(&device_values, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&device_total, sizeof(total)));
  CHECK(cudaMemcpy(device_values, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device_total, 0, sizeof(total)));
  for (size_t r = 0; r < repetitions; r++) {
    reduce<<<32, kThreads>>>(device_values, n, device_total);
    CHECK_LAUNCH();
  }
  CHECK(cudaMemcpy(&total, device_total, sizeof(total), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_total));

  printf("reduce: n=%zu repetitions=%zu ", n, repetitions);
  return report(total == repetitions * expected);
}
