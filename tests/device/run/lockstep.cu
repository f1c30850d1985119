// Code from before CUDA 9 relies on the lanes of a warp staying together at volatile accesses and at fences,
// as they do on hardware; here they do too, in any order of threads.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// RUN: %softgpu env SOFTGPU_ORDER=reverse %t 2>&1 | FileCheck %s
// RUN: %softgpu env SOFTGPU_ORDER=7 %t 2>&1 | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: passed
#include "check.h"

// The last warp adds up without barriers.
__global__ void reduce(unsigned *out) {
  __shared__ unsigned words[128];
  unsigned i = threadIdx.x;
  words[i] = i + blockIdx.x;
  __syncthreads();
  if (i < 64)
    words[i] += words[i + 64];
  __syncthreads();
  if (i < 32) {
    volatile unsigned *last = words;
    last[i] += last[i + 32];
    last[i] += last[i + 16];
    last[i] += last[i + 8];
    last[i] += last[i + 4];
    last[i] += last[i + 2];
    last[i] += last[i + 1];
  }
  if (i == 0)
    out[blockIdx.x] = words[0];
}

// One lane gives back a lock that guards what all of them wrote.
__global__ void locked(unsigned *counts, unsigned *lock) {
  unsigned lane = threadIdx.x % 32;
  for (unsigned got = 1; got;) {
    if (lane == 1)
      got = atomicExch(lock, 1);
    got = __shfl_sync(~0u, got, 1);
  }
  __threadfence();
  counts[lane] += 1;
  __threadfence();
  if (lane == 1)
    atomicExch(lock, 0);
}

int main() {
  Array<unsigned> sums(20);
  reduce<<<20, 128>>>(sums.data);
  auto values = sums.get();
  for (unsigned i = 0; i < 20; i++)
    EXPECT(values[i] == 128 * 127 / 2 + 128 * i);
  Array<unsigned> counts(32), lock(1);
  CUDA(cudaMemset(counts.data, 0, 32 * sizeof(unsigned)));
  CUDA(cudaMemset(lock.data, 0, sizeof(unsigned)));
  locked<<<8, 128>>>(counts.data, lock.data);
  values = counts.get();
  for (unsigned i = 0; i < 32; i++)
    EXPECT(values[i] == 32);
  return finish();
}
