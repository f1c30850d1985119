// The kernels of random programs, and what each does to bytes, said once for both sides.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

constexpr int kMostThreads = 4;      // host threads of a program
constexpr size_t kGlobalBytes = 1536; // of each thread's share of the device variables
constexpr size_t kConstantBytes = 256;

// Each host thread has a share of its own.
__device__ __align__(16) unsigned char global_bytes[kMostThreads][kGlobalBytes];
__constant__ __align__(16) unsigned char global_constants[kMostThreads][kConstantBytes];
__device__ unsigned char *global_pointer[kMostThreads];

#define EACH(i, count)                                                                                                 \
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < (count); i += size_t(gridDim.x) * blockDim.x)

__host__ __device__ inline unsigned char mixed(unsigned char old, size_t i, int value) {
  return (unsigned char)(old * 5 + int(i & 0xff) * value + 3);
}

__global__ void add(unsigned char *bytes, size_t count, int value) {
  EACH(i, count) bytes[i] += value;
}

__global__ void fill(unsigned char *bytes, size_t count, int value) {
  EACH(i, count) bytes[i] = (unsigned char)(value + i * 7);
}

__global__ void mix(unsigned char *bytes, size_t count, int value) {
  EACH(i, count) bytes[i] = mixed(bytes[i], i, value);
}

__global__ void combine(unsigned char *to, const unsigned char *from, size_t count) {
  EACH(i, count) to[i] = (unsigned char)(to[i] * 3 + from[i]);
}

// Objects within a structure that is handed over by value.
struct Pair {
  char tag;
  unsigned char *to;
  const unsigned char *from;
  size_t count;
};

__global__ void reversed(Pair pair) {
  EACH(i, pair.count) pair.to[i] = (unsigned char)(pair.from[pair.count - 1 - i] ^ pair.tag);
}

__global__ void count_in(unsigned *total, const unsigned char *from, size_t count) {
  EACH(i, count) atomicAdd(total, from[i]);
}

// Through a cell that holds a pointer, and the cells that it leads to.
__global__ void add_behind(unsigned char **cell, int depth, size_t count, int value) {
  for (; depth > 0; depth--)
    cell = reinterpret_cast<unsigned char **>(*cell);
  EACH(i, count) reinterpret_cast<unsigned char *>(cell)[i] += value;
}

// A kernel writes a pointer.
__global__ void point(unsigned char **cell, unsigned char *to) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *cell = to;
}

__global__ void exchange(unsigned char **one, unsigned char **other) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    unsigned char *kept = *one;
    *one = *other;
    *other = kept;
  }
}

__global__ void add_globals(unsigned char *to, size_t count, int who) {
  EACH(i, count) to[i] += global_bytes[who][i % kGlobalBytes] ^ global_constants[who][i % kConstantBytes];
}

__global__ void to_globals(const unsigned char *from, size_t count, int who) {
  EACH(i, count) global_bytes[who][i] = mixed(global_bytes[who][i], i, from[i]);
}

__global__ void add_behind_global(int who, size_t count, int value) {
  EACH(i, count) global_pointer[who][i] += value;
}

// Each half is written, and read by all after all have written.
__global__ void turn(unsigned char *bytes, unsigned char *spare, size_t count, int value) {
  EACH(i, count) spare[i] = (unsigned char)(bytes[i] + value);
  cooperative_groups::this_grid().sync();
  EACH(i, count) bytes[i] = spare[(i + count / 2) % count];
}

// Blocks of 64 bytes reversed by way of shared memory of the launch's size.
__global__ void flip(unsigned char *bytes, size_t blocks) {
  extern __shared__ unsigned char tile[];
  for (size_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    tile[threadIdx.x] = bytes[block * 64 + threadIdx.x];
    __syncthreads();
    bytes[block * 64 + threadIdx.x] = tile[63 - threadIdx.x];
    __syncthreads();
  }
}
