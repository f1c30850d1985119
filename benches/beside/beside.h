// What programs that run beside each other share: checked calls, arguments, a common start, latencies.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// CHECK, as the workloads of the evaluation have it.
#include "../workloads/workload.h"

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// `--name NUMBER` among the arguments, or `otherwise`.
inline double number(int argc, char **argv, const char *name, double otherwise) {
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], name) == 0)
      return atof(argv[i + 1]);
  return otherwise;
}

// Says that the program is ready, and waits for a line: programs that are compared begin together.
inline void wait_for_start() {
  printf("ready\n");
  fflush(stdout);
  char line[16];
  if (fgets(line, sizeof line, stdin) == nullptr)
    exit(4);
}

// The value below which `part` of the sorted values lie.
inline double quantile(const std::vector<double> &sorted, double part) {
  if (sorted.empty())
    return 0;
  return sorted[std::min(sorted.size() - 1, size_t(part * double(sorted.size())))];
}

// A thread takes `steps` steps, each of which needs the one before: some 2 ns a step.
__device__ inline unsigned chain(unsigned x, size_t steps) {
  for (size_t s = 0; s < steps; s++)
    x = x * 1664525u + 1013904223u;
  return x;
}

__global__ void advance(unsigned *words, size_t steps) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  words[i] = chain(words[i], steps);
}
