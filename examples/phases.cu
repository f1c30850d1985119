// A job as batches are full of: it holds device memory all along, and in turn works on the host and on the GPU.
// Sharing pays because one job's host phase is another job's GPU phase.
//
//   phases [MiB] [rounds] [host ms] [compute|wait] [kernel steps] [blocks]
//
// A host phase of kind `compute` uses up that much time of one core with real arithmetic (on a busy machine it lasts
// longer); `wait` sleeps, as for a disk. A kernel makes `steps` steps of a linear congruential generator on every
// element; on the host the same is checked by skipping ahead, exactly and at no cost.
//
//#Args: mib=2 rounds=2 host_ms=1 kind=wait steps=10 blocks=8
//#Stdout: phases: mib=2 rounds=2 steps=10 PASS
//#Static: 1
//#Peak: mib * 1048576

#include "common.h"
#include <ctime>
#include <vector>

constexpr unsigned kFactor = 1664525u, kIncrement = 1013904223u;
constexpr unsigned kThreads = 256;

__global__ void steps_of_generator(unsigned *state, size_t n, size_t steps) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    unsigned x = state[i];
    for (size_t s = 0; s < steps; s++)
      x = x * kFactor + kIncrement;
    state[i] = x;
  }
}

// The factor and the increment of `steps` steps at once.
static void skip_ahead(size_t steps, unsigned &factor, unsigned &increment) {
  factor = 1;
  increment = 0;
  unsigned square_factor = kFactor, square_increment = kIncrement;
  for (; steps != 0; steps /= 2) {
    if (steps % 2 == 1) {
      factor *= square_factor;
      increment = increment * square_factor + square_increment;
    }
    square_increment = square_increment * square_factor + square_increment;
    square_factor *= square_factor;
  }
}

static double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Keeps one core busy until this thread has used `ms` of it.
static void compute_for(size_t ms) {
  static volatile double sink;
  double until = seconds_of(CLOCK_THREAD_CPUTIME_ID) + 1e-3 * double(ms);
  double sum = 0;
  for (unsigned i = 1; seconds_of(CLOCK_THREAD_CPUTIME_ID) < until;)
    for (unsigned end = i + 10000; i != end; i++)
      sum += 1.0 / (double(i) * double(i));
  sink = sum;
}

static void wait_for(size_t ms) {
  timespec pause;
  pause.tv_sec = time_t(ms / 1000);
  pause.tv_nsec = long(ms % 1000) * 1000000;
  nanosleep(&pause, nullptr);
}

static void host_phase(bool computes, size_t ms) {
  if (computes)
    compute_for(ms);
  else
    wait_for(ms);
}

int main(int argc, char **argv) {
  size_t mib = count_argument(argc, argv, 1, 2);
  size_t rounds = count_argument(argc, argv, 2, 2);
  size_t host_ms = count_argument(argc, argv, 3, 1);
  bool computes = argc > 4 && strcmp(argv[4], "compute") == 0;
  size_t steps = count_argument(argc, argv, 5, 10);
  unsigned blocks = unsigned(count_argument(argc, argv, 6, 8));
  size_t bytes = mib << 20;
  size_t n = bytes / sizeof(unsigned);
  std::vector<unsigned> state(n);
  for (size_t i = 0; i < n; i++)
    state[i] = unsigned(i) * 2654435761u;

  unsigned *device_state;
  CHECK(cudaMalloc(&device_state, bytes));
  CHECK(cudaMemcpy(device_state, state.data(), bytes, cudaMemcpyHostToDevice));
  for (size_t r = 0; r < rounds; r++) {
    host_phase(computes, host_ms);
    steps_of_generator<<<blocks, kThreads>>>(device_state, n, steps);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(state.data(), device_state, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_state));

  unsigned factor, increment;
  skip_ahead(rounds * steps, factor, increment);
  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && state[i] == unsigned(i) * 2654435761u * factor + increment;
  printf("phases: mib=%zu rounds=%zu steps=%zu ", mib, rounds, steps);
  return report(right);
}
