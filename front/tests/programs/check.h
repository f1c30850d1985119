/* What programs in the driver API share. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                        \
  do {                                                     \
    CUresult code_ = (call);                               \
    if (code_ != CUDA_SUCCESS) {                           \
      printf("%s: %d, line %d\n", #call, code_, __LINE__); \
      exit(1);                                             \
    }                                                      \
  } while (0)
