// Threads that wait for others through memory: blocks in a chain, blocks that wait for later ones, locks, a
// barrier of the whole grid by hand and by cooperative groups.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Each block waits for the one after it.
__global__ void backwards(volatile int *done, int blocks) {
  int b = blockIdx.x;
  if (b + 1 < blocks)
    while (!done[b + 1])
      ;
  __threadfence();
  done[b] = b + 1 < blocks ? done[b + 1] + 1 : 1;
}

// The same, with a barrier around it.
__global__ void backwards_together(int *done, int blocks) {
  __shared__ int count;
  if (threadIdx.x == 0) {
    int b = blockIdx.x, next = 0;
    if (b + 1 < blocks)
      while ((next = atomicAdd(&done[b + 1], 0)) == 0)
        ;
    count = next + 1;
  }
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1)
    atomicExch(&done[blockIdx.x], count);
}

// Every thread waits for the thread after it, of its block or of the next.
__global__ void chain(volatile int *done, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < threads)
    while (!done[i + 1])
      ;
  done[i] = 1;
}

__global__ void locked(int *lock, int *sum) {
  for (bool over = false; !over;)
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      *(volatile int *)sum += 1;
      __threadfence();
      atomicExch(lock, 0);
      over = true;
    }
}

__global__ void by_hand(unsigned *count, int *data, int rounds) {
  int blocks = gridDim.x, t = threadIdx.x, b = blockIdx.x;
  for (int r = 0; r < rounds; r++) {
    int left = data[(b + blocks - 1) % blocks * blockDim.x + t];
    for (int phase = 0; phase < 2; phase++) {
      __threadfence();
      __syncthreads();
      if (t == 0) {
        atomicAdd(count, 1);
        while (*(volatile unsigned *)count < (2 * r + phase + 1) * blocks)
          ;
      }
      __syncthreads();
      if (phase == 0)
        data[b * blockDim.x + t] = left + 1;
    }
  }
}

__global__ void cooperative(int *data, int rounds) {
  auto grid = cg::this_grid();
  int n = grid.size(), i = grid.thread_rank();
  for (int r = 0; r < rounds; r++) {
    int left = data[(i + n - 1) % n];
    grid.sync();
    data[i] = left + 1;
    grid.sync();
  }
}

int main() {
  {
    Array<int> done(300);
    backwards<<<300, 1>>>(done.data, 300);
    EXPECT(done.get()[0] == 300);
  }
  {
    Array<int> done(100);
    backwards_together<<<100, 64>>>(done.data, 100);
    EXPECT(done.get()[0] == 100);
  }
  {
    Array<int> done(4 * 64);
    chain<<<4, 64>>>(done.data, 256);
    EXPECT(done.get() == std::vector<int>(256, 1));
  }
  {
    Array<int> lock(1), sum(1);
    locked<<<16, 64>>>(lock.data, sum.data);
    EXPECT(sum.get()[0] == 1024);
  }
  {
    Array<unsigned> count(1);
    Array<int> data(64 * 32);
    by_hand<<<64, 32>>>(count.data, data.data, 5);
    EXPECT(data.get() == std::vector<int>(64 * 32, 5));
  }
  {
    std::vector<int> values(64 * 64);
    values[0] = 100;
    Array<int> data(values);
    int rounds = 7;
    void *arguments[] = {&data.data, &rounds};
    CUDA(cudaLaunchCooperativeKernel((const void *)cooperative, 64, 64, arguments, 0, 0));
    EXPECT(data.get()[7] == 107 && data.get()[8] == 7);
  }
  return finish();
}
