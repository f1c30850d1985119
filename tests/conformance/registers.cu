// What a thread knows of itself and of its grid.
#include "conformance.h"

CASE_OF(thread_index, unsigned, dim3(2, 3, 2), dim3(4, 2, 3), 0) {
  out[linear()] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
}

CASE_OF(block_index, unsigned, dim3(2, 3, 2), dim3(4, 2, 3), 0) {
  out[linear()] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
}

CASE_OF(dimensions, unsigned, dim3(2, 3, 2), dim3(4, 2, 3), 0) {
  out[linear()] = blockDim.x | blockDim.y << 4 | blockDim.z << 8 | gridDim.x << 12 | gridDim.y << 16 | gridDim.z << 20;
}

CASE_OF(warp_size, unsigned, 1, 40, 0) { out[linear()] = warpSize; }

__device__ unsigned lane_id() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

CASE_OF(lane, unsigned, 1, dim3(8, 10, 1), 0) { out[linear()] = lane_id(); }

#define MASK_CASE(name)                                                                                                \
  CASE_OF(name, unsigned, 1, 70, 0) {                                                                                  \
    unsigned mask;                                                                                                     \
    asm("mov.u32 %0, %%" #name ";" : "=r"(mask));                                                                      \
    out[linear()] = mask;                                                                                              \
  }
MASK_CASE(lanemask_eq)
MASK_CASE(lanemask_lt)
MASK_CASE(lanemask_le)
MASK_CASE(lanemask_gt)
MASK_CASE(lanemask_ge)

CASE(clock_goes_on, unsigned) {
  long long before = clock64();
  unsigned i = threadIdx.x, sum = 0;
  for (volatile unsigned at = 0; at < 100 + i; at = at + 1)
    sum += at;
  long long after = clock64();
  out[i] = (after > before ? 1 : 0) + (sum == 0 ? 2 : 0);
}

CASE(global_timer_goes_on, unsigned) {
  unsigned long long before, after;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
  __nanosleep(100000);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after));
  out[threadIdx.x] = after >= before;
}

CASE_OF(multiprocessor_is_one_of_them, unsigned, 4, 32, 0) {
  unsigned which, count;
  asm("mov.u32 %0, %%smid;" : "=r"(which));
  asm("mov.u32 %0, %%nsmid;" : "=r"(count));
  out[linear()] = which < count;
}
