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

// Each call of the recursion meets all threads, on the way down and on the way up.
__device__ __noinline__ unsigned fold(unsigned *words, unsigned width) {
  unsigned i = threadIdx.x;
  __syncthreads();
  unsigned sum = i < width ? words[i] + words[i + width] : 0;
  __syncthreads();
  if (i < width)
    words[i] = sum;
  if (width > 1)
    sum += fold(words, width / 2);
  __syncthreads();
  return sum + words[0];
}
CASE_OF(barriers_in_recursion, unsigned, 2, 64, 0) {
  __shared__ unsigned words[64];
  words[threadIdx.x] = any32(threadIdx.x + blockIdx.x);
  out[linear()] = fold(words, 32);
}

__device__ __noinline__ unsigned next_of(unsigned *words) {
  __syncthreads();
  return words[(threadIdx.x + 1) % 64];
}
__device__ __noinline__ unsigned before_of(unsigned *words) {
  __syncthreads();
  return words[(threadIdx.x + 63) % 64];
}
CASE_OF(barrier_behind_a_pointer, unsigned, 3, 64, 0) {
  __shared__ unsigned words[64];
  words[threadIdx.x] = threadIdx.x * 5 + blockIdx.x;
  unsigned (*way)(unsigned *) = blockIdx.x == 1 ? next_of : before_of;
  out[linear()] = way(words);
}

// What a thread keeps from barrier to barrier: an array that it indexes, its address, and one that wants more
// alignment than most.
CASE_OF(arrays_across_barriers, unsigned, 2, 64, 0) {
  __shared__ unsigned words[64];
  unsigned i = threadIdx.x, own[16];
  for (unsigned at = 0; at < 16; ++at)
    own[at] = any32(i * 16 + at);
  unsigned *place = &own[any32(i) % 16];
  for (unsigned round = 0; round < 8; ++round) {
    words[i] = *place;
    __syncthreads();
    own[(i + round) % 16] += words[(i + round) % 64];
    place = &own[words[63 - i] % 16];
    __syncthreads();
  }
  unsigned sum = 0;
  for (unsigned at = 0; at < 16; ++at)
    sum = sum * 31 + own[at];
  out[linear()] = sum;
}
CASE_OF(aligned_across_barriers, unsigned, 1, 64, 0) {
  __shared__ unsigned words[64];
  struct alignas(256) Wide {
    unsigned at[4];
  } wide;
  unsigned i = threadIdx.x;
  for (unsigned k = 0; k < 4; ++k)
    wide.at[k] = i + k;
  words[i] = i * 3;
  __syncthreads();
  wide.at[words[i ^ 1] % 4] += words[63 - i];
  __syncthreads();
  unsigned short low = static_cast<unsigned short>(reinterpret_cast<unsigned long long>(&wide) % 256);
  out[i] = wide.at[i % 4] + low;
}
CASE_OF(exits_from_within, unsigned, 1, 96, 0) {
  __shared__ unsigned words[96];
  unsigned i = threadIdx.x;
  words[i] = i;
  out[i] = 5;
  for (unsigned round = 0; round < 4; ++round) {
    if (i % 32 == round)
      asm volatile("exit;");
    __syncthreads();
    words[i] += round;
    __syncthreads();
  }
  out[i] = words[i] + words[31];
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
