// Allocates, fills and frees the arrays. Nothing here launches a kernel.

#include "state.h"
#include "../common.h"
#include <vector>

State init(size_t n) {
  State state{n, nullptr, nullptr};
  std::vector<int> host(n);
  for (size_t i = 0; i < n; i++)
    host[i] = int(i % 4099);
  CHECK(cudaMalloc(&state.values, n * sizeof(int)));
  CHECK(cudaMalloc(&state.sums, n * sizeof(int)));
  CHECK(cudaMemcpy(state.values, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(state.sums, 0, n * sizeof(int)));
  return state;
}

void finish(State &state, int *sums) {
  CHECK(cudaMemcpy(sums, state.sums, state.n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(state.values));
  CHECK(cudaFree(state.sums));
}
