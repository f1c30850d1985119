// More memory than there is for all: one thread multiplies, while another waits for room, for which the memory that is
// multiplied may have to leave the GPU. Every product is right all the same.
#include "blas.h"
#include <thread>

constexpr int kN = 64;
constexpr size_t kHalf = 22 << 20;

int main() {
  Handle h;
  OK(cublasCreate_v2(&h));
  char *first, *second = nullptr;
  OK(cudaMalloc((void **)&first, kHalf));
  auto *a = (double *)first, *c = (double *)(first + kHalf / 2);
  std::vector<double> values = numbers<double>(kN * kN, 1);
  OK(cublasSetMatrix(kN, kN, 8, values.data(), kN, a, kN));
  std::thread asks([&] { OK(cudaMalloc((void **)&second, kHalf)); });
  double one = 1, zero = 0;
  for (int round = 0; round < 200; round++) {
    OK(cublasDgemm_v2(h, N, T, kN, kN, kN, &one, a, kN, a, kN, &zero, c, kN));
    double found[kN];
    OK(cublasGetVector(kN, 8, c + round % kN, kN, found, 1));
    for (int column = 0; column < kN; column += 7) {
      double sum = 0;
      for (int k = 0; k < kN; k++)
        sum += values[k * kN + round % kN] * values[k * kN + column];
      EXPECT(near(found[column], sum, 1000));
    }
  }
  asks.join();
  OK(cudaMemset(second, 1, kHalf));
  OK(cublasDcopy_v2(h, kN, c, 1, (double *)second, 1));
  double sums[2];
  OK(cublasDasum_v2(h, kN, c, 1, &sums[0]));
  OK(cublasDasum_v2(h, kN, (double *)second, 1, &sums[1]));
  EXPECT(sums[0] == sums[1] && sums[0] > 0);
  OK(cudaFree(first));
  OK(cudaFree(second));
  OK(cublasDestroy_v2(h));
  puts("PASS");
}
