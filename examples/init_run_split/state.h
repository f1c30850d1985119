// The arrays that init.cu allocates and main.cu launches kernels on.
#pragma once

#include <cstddef>

struct State {
  size_t n;
  int *values;
  int *sums;
};

State init(size_t n);
void finish(State &state, int *sums);
