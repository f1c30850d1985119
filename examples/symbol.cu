// Device variables by name: the host writes the coefficients of a polynomial into constant memory, and a counter into
// a global variable, and reads the counter back. No device pointer to either is ever seen.
//
//   symbol [n] [rounds]
//
// The arithmetic is on unsigned integers, so it wraps and is exact.
//
//#Args: n=20000 rounds=3
//#Stdout: symbol: n=20000 rounds=3 PASS
//#Static: 1
//#Peak: 4 * n

#include "common.h"
#include <vector>

constexpr unsigned kDegree = 5;

__constant__ unsigned coefficients[kDegree + 1];
__device__ unsigned odd_values;

__host__ __device__ unsigned polynomial(const unsigned *c, unsigned x) {
  unsigned value = 0;
  for (unsigned k = kDegree + 1; k-- > 0;)
    value = value * x + c[k];
  return value;
}

__global__ void evaluate(unsigned *values, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  values[i] = polynomial(coefficients, unsigned(i));
  if (values[i] % 2 == 1)
    atomicAdd(&odd_values, 1);
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 20000);
  size_t rounds = count_argument(argc, argv, 2, 3);
  std::vector<unsigned> result(n);
  unsigned *values;
  CHECK(cudaMalloc(&values, n * sizeof(unsigned)));

  bool right = true;
  for (size_t r = 0; r < rounds; r++) {
    unsigned chosen[kDegree + 1];
    for (unsigned k = 0; k <= kDegree; k++)
      chosen[k] = unsigned(7 * r + 3 * k + 1);
    const unsigned zero = 0;
    CHECK(cudaMemcpyToSymbol(coefficients, chosen, sizeof(chosen)));
    CHECK(cudaMemcpyToSymbol(odd_values, &zero, sizeof(zero)));
    // One element of an array, by its offset.
    chosen[1] = 12345;
    CHECK(cudaMemcpyToSymbol(coefficients, &chosen[1], sizeof(unsigned), sizeof(unsigned)));

    evaluate<<<(n + 127) / 128, 128>>>(values, n);
    CHECK_LAUNCH();
    unsigned odd = 0, expected_odd = 0;
    CHECK(cudaMemcpyFromSymbol(&odd, odd_values, sizeof(odd)));
    CHECK(cudaMemcpy(result.data(), values, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++) {
      unsigned expected = polynomial(chosen, unsigned(i));
      right = right && result[i] == expected;
      expected_odd += expected % 2;
    }
    right = right && odd == expected_odd;
  }
  CHECK(cudaFree(values));
  printf("symbol: n=%zu rounds=%zu ", n, rounds);
  return report(right);
}
