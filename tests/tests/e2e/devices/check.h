// What the programs of this folder share.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t code_ = (call);                                                                                        \
    if (code_ != cudaSuccess) {                                                                                        \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(code_));                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)
