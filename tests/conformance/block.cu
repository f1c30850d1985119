// What the threads of a block do together: barriers and shared memory.
#include "conformance.h"

CASE(barrier_reversal, unsigned) {
  __shared__ unsigned words[64];
  unsigned i = threadIdx.x;
  words[i] = any32(i);
  __syncthreads();
  out[i] = words[63 - i];
}
CASE_OF(barrier_count, int, 2, 96, 0) { out[linear()] = __syncthreads_count(threadIdx.x % 3 == blockIdx.x); }
CASE_OF(barrier_and, int, 2, 96, 0) { out[linear()] = __syncthreads_and(threadIdx.x < 95 + blockIdx.x); }
CASE_OF(barrier_or, int, 2, 96, 0) { out[linear()] = __syncthreads_or(threadIdx.x == 95 + blockIdx.x); }

CASE_OF(barrier_after_exits, unsigned, 1, 96, 0) {
  __shared__ unsigned words[96];
  unsigned i = threadIdx.x;
  words[i] = i;
  out[i] = 7;
  if (i >= 64)
    return;
  __syncthreads();
  out[i] = words[63 - i] + 1;
}

CASE_OF(barriers_with_names, unsigned, 1, 128, 0) {
  __shared__ unsigned words[128];
  unsigned i = threadIdx.x, half = i / 64;
  words[i] = i * 3;
  if (half == 0)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
  out[i] = words[i ^ 63];
}

CASE_OF(producer_and_consumer_barriers, unsigned, 1, 64, 0) {
  __shared__ unsigned words[32];
  unsigned i = threadIdx.x;
  if (i < 32) {
    words[i] = i * i;
    asm volatile("bar.arrive 3, 64;" ::: "memory");
    out[i] = 1;
  } else {
    asm volatile("bar.sync 3, 64;" ::: "memory");
    out[i] = words[63 - i];
  }
}

CASE_OF(block_reduction, unsigned, 2, 256, 0) {
  __shared__ unsigned words[256];
  unsigned i = threadIdx.x;
  words[i] = any32(i + blockIdx.x);
  for (unsigned half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (i < half)
      words[i] += words[i + half];
  }
  __syncthreads();
  out[linear()] = words[0];
}

CASE_OF(block_scan, unsigned, 1, 256, 0) {
  __shared__ unsigned words[2][256];
  unsigned i = threadIdx.x, at = 0;
  words[0][i] = i;
  for (unsigned step = 1; step < 256; step *= 2) {
    __syncthreads();
    words[1 - at][i] = words[at][i] + (i >= step ? words[at][i - step] : 0);
    at = 1 - at;
  }
  out[i] = words[at][i];
}

__global__ void dynamic_shared_kernel(unsigned *out) {
  extern __shared__ unsigned words[];
  unsigned i = threadIdx.x, size;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  words[i] = i * 5;
  __syncthreads();
  out[i] = words[63 - i] + size;
}
HOST_CASE(dynamic_shared) { conformance::run_kernel<unsigned>(record, dynamic_shared_kernel, 1, 64, 0, 2048); }

__global__ void large_shared_kernel(unsigned *out) {
  extern __shared__ unsigned words[];
  for (unsigned at = threadIdx.x; at < 25600; at += blockDim.x)
    words[at] = at;
  __syncthreads();
  out[threadIdx.x] = words[25599 - threadIdx.x * 7];
}
HOST_CASE(large_shared_when_allowed) {
  conformance::check("cudaFuncSetAttribute", cudaFuncSetAttribute((const void *)large_shared_kernel,
                                                                  cudaFuncAttributeMaxDynamicSharedMemorySize, 102400));
  conformance::run_kernel<unsigned>(record, large_shared_kernel, 1, 64, 0, 102400);
}

struct Mixed {
  double d;
  unsigned short s;
  char c;
};
CASE(shared_structs, unsigned) {
  __shared__ Mixed mixed[64];
  unsigned i = threadIdx.x;
  mixed[i] = {double(i) / 2, (unsigned short)(i * 3), char(i)};
  __syncthreads();
  Mixed other = mixed[(i * 5) % 64];
  out[i] = unsigned(other.d * 2) + other.s + unsigned(other.c);
}

CASE(shared_address_is_generic, unsigned) {
  __shared__ unsigned words[64];
  unsigned *pointer = &words[threadIdx.x];
  *pointer = threadIdx.x;
  out[threadIdx.x] = __isShared(pointer) + 2 * __isGlobal(out) + 4 * __isGlobal(pointer) + 8 * *pointer;
}

CASE_OF(many_blocks, unsigned, 500, 32, 0) { out[linear()] = blockIdx.x * 32 + threadIdx.x; }
CASE_OF(blocks_of_1024, unsigned, dim3(2, 2), dim3(32, 8, 4), 0) {
  __shared__ unsigned last;
  if (threadIdx.x + threadIdx.y + threadIdx.z == 31 + 7 + 3)
    last = blockIdx.x + 10 * blockIdx.y;
  __syncthreads();
  out[linear()] = last;
}
