// Managed memory: one pointer for host and device. The driver moves the pages; the program only waits for the GPU before
// it reads or writes.
//
//   managed [n] [rounds]
//
//#Args: n=20000 rounds=3
//#Stdout: managed: n=20000 rounds=3 PASS
//#Lazy: anchored

#include "common.h"

__global__ void add_up(unsigned *values, size_t n, unsigned long long *total) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  values[i] += 1;
  atomicAdd(total, static_cast<unsigned long long>(values[i]));
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 20000);
  size_t rounds = count_argument(argc, argv, 2, 3);
  unsigned *values;
  unsigned long long *total;
  CHECK(cudaMallocManaged(&values, n * sizeof(unsigned)));
  CHECK(cudaMallocManaged(&total, sizeof(*total)));
  for (size_t i = 0; i < n; i++)
    values[i] = unsigned(i);

  bool right = true;
  for (size_t r = 0; r < rounds; r++) {
    unsigned long long expected = 0;
    for (size_t i = 0; i < n; i++)
      expected += values[i] + 1;
    *total = 0;
    add_up<<<unsigned((n + 127) / 128), 128>>>(values, n, total);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    right = right && *total == expected;
    // The host changes what the next round starts from.
    for (size_t i = 0; i < n; i++)
      values[i] *= 3;
  }
  for (size_t i = 0; i < n; i++) {
    unsigned expected = unsigned(i);
    for (size_t r = 0; r < rounds; r++)
      expected = (expected + 1) * 3;
    right = right && values[i] == expected;
  }
  CHECK(cudaFree(values));
  CHECK(cudaFree(total));
  printf("managed: n=%zu rounds=%zu ", n, rounds);
  return report(right);
}
