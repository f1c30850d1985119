// A job that mostly waits: device memory held through long pauses, with a short kernel after each. Where others wait for
// room, its memory leaves the GPU in a pause and comes back at the next launch. The data is made and checked on the
// device, so that hardly any host memory is needed.
//
//   pauses [MiB] [rounds] [pause ms] [kernel steps] [blocks]
//
// Says on stderr how long each round's kernel took, memory that had to come back included.
//
//#Args: mib=2 rounds=2 pause_ms=1 steps=10 blocks=8
//#Stdout: pauses: mib=2 rounds=2 steps=10 PASS
//#Static: 1
//#Peak: mib * 1048576 + 8

#include "common.h"
#include <chrono>
#include <thread>

constexpr unsigned kFactor = 22695477u, kIncrement = 1u, kSpread = 2654435761u;
constexpr unsigned kThreads = 256;

__global__ void fill(unsigned *state, size_t n) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    state[i] = unsigned(i) * kSpread;
}

__global__ void step(unsigned *state, size_t n, size_t steps) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    unsigned x = state[i];
    for (size_t s = 0; s < steps; s++)
      x = x * kFactor + kIncrement;
    state[i] = x;
  }
}

// Counts the elements that are not what so many steps make of them: x * factor + increment.
__global__ void compare(const unsigned *state, size_t n, unsigned factor, unsigned increment, unsigned long long *wrong) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    if (state[i] != unsigned(i) * kSpread * factor + increment)
      atomicAdd(wrong, 1ull);
}

int main(int argc, char **argv) {
  size_t mib = positive_argument(argc, argv, 1, 2);
  size_t rounds = count_argument(argc, argv, 2, 2);
  size_t pause_ms = count_argument(argc, argv, 3, 1);
  size_t steps = count_argument(argc, argv, 4, 10);
  unsigned blocks = unsigned(positive_argument(argc, argv, 5, 8));
  size_t bytes = mib << 20, n = bytes / sizeof(unsigned);

  unsigned *state;
  unsigned long long *wrong, count = 0;
  CHECK(cudaMalloc(&state, bytes));
  CHECK(cudaMalloc(&wrong, sizeof *wrong));
  fill<<<blocks, kThreads>>>(state, n);
  CHECK_LAUNCH();
  CHECK(cudaMemset(wrong, 0, sizeof *wrong));
  CHECK(cudaDeviceSynchronize());
  unsigned factor = 1, increment = 0;
  for (size_t round = 0; round < rounds; round++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    auto begin = std::chrono::steady_clock::now();
    step<<<blocks, kThreads>>>(state, n, steps);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fprintf(stderr, "round %zu: %.3f s\n", round + 1, seconds.count());
    for (size_t s = 0; s < steps; s++) {
      factor *= kFactor;
      increment = increment * kFactor + kIncrement;
    }
  }
  compare<<<blocks, kThreads>>>(state, n, factor, increment, wrong);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(state));
  CHECK(cudaFree(wrong));
  printf("pauses: mib=%zu rounds=%zu steps=%zu ", mib, rounds, steps);
  return report(count == 0);
}
