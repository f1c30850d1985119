// init_run in two files: init.cu allocates, this one launches. Neither file alone could know the task.
//
//   init_run_split [n] [repetitions]
//
//#Args: n=60000 repetitions=3
//#Stdout: init_run_split: n=60000 repetitions=3 PASS
//#Lazy: allocated-elsewhere
//#Lazy: address-escapes
//#Record: 2 * 4 * n

#include "../common.h"
#include "state.h"
#include <vector>

__global__ void accumulate(const int *values, int *sums, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    sums[i] += values[i];
}

static void run(const State &state) {
  accumulate<<<(state.n + 255) / 256, 256>>>(state.values, state.sums, state.n);
  CHECK_LAUNCH();
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 60000);
  size_t repetitions = count_argument(argc, argv, 2, 3);
  State state = init(n);
  for (size_t i = 0; i < repetitions; i++)
    run(state);
  std::vector<int> sums(n);
  finish(state, sums.data());

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && sums[i] == int(repetitions) * int(i % 4099);
  printf("init_run_split: n=%zu repetitions=%zu ", n, repetitions);
  return report(right);
}
