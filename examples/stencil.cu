// A three-point stencil in a ping-pong loop: each step reads one array and writes the other, then the two change
// roles. Every launch touches both arrays, whichever name they have: one task around the whole loop.
//
//   stencil [n] [steps]
//
//#Args: n=20000 steps=10
//#Stdout: stencil: n=20000 steps=10 PASS
//#Static: 1
//#Peak: 2 * 4 * n

#include "common.h"
#include <vector>

// Unsigned, so that sums wrap and stay exact.
__global__ void step(const unsigned *from, unsigned *to, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned left = i > 0 ? from[i - 1] : 0;
  unsigned right = i + 1 < n ? from[i + 1] : 0;
  to[i] = left + 3 * from[i] + right;
}

static void step_on_host(std::vector<unsigned> &values) {
  unsigned left = 0;
  for (size_t i = 0; i < values.size(); i++) {
    unsigned here = values[i];
    unsigned right = i + 1 < values.size() ? values[i + 1] : 0;
    values[i] = left + 3 * here + right;
    left = here;
  }
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 20000);
  size_t steps = count_argument(argc, argv, 2, 10);
  std::vector<unsigned> expected(n), result(n);
  for (size_t i = 0; i < n; i++)
    expected[i] = unsigned(i * i % 65521);

  unsigned *from, *to;
  CHECK(cudaMalloc(&from, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&to, n * sizeof(unsigned)));
  CHECK(cudaMemcpy(from, expected.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  for (size_t s = 0; s < steps; s++) {
    step<<<(n + 255) / 256, 256>>>(from, to, n);
    CHECK_LAUNCH();
    unsigned *written = to;
    to = from;
    from = written;
  }
  CHECK(cudaMemcpy(result.data(), from, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));

  for (size_t s = 0; s < steps; s++)
    step_on_host(expected);
  printf("stencil: n=%zu steps=%zu ", n, steps);
  return report(result == expected);
}
