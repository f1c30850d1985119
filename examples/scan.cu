// Inclusive prefix sums from the warp up: lanes pass sums on by shuffles, warps by shared memory, blocks by a second
// kernel over the blocks' totals.
//
//   scan [n]
//
//#Args: n=50000
//#Stdout: scan: n=50000 PASS
//#Args: n=31
//#Stdout: scan: n=31 PASS
//#Static: 1
//#Peak: 2 * 4 * n + 4 * ((n + 255) / 256)

#include "common.h"
#include <vector>

constexpr unsigned kThreads = 256, kWarp = 32;

// The sum of this lane's value and those of all lanes before it.
__device__ unsigned scan_warp(unsigned value) {
  unsigned lane = threadIdx.x % kWarp;
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    unsigned before = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance)
      value += before;
  }
  return value;
}

// The same over a block.
__device__ unsigned scan_block(unsigned value) {
  __shared__ unsigned totals[kThreads / kWarp];
  unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = scan_warp(value);
  __syncthreads(); // nobody reads what an earlier call left
  if (lane == kWarp - 1)
    totals[warp] = value;
  __syncthreads();
  if (warp == 0) {
    unsigned total = scan_warp(lane < kThreads / kWarp ? totals[lane] : 0);
    if (lane < kThreads / kWarp)
      totals[lane] = total;
  }
  __syncthreads();
  return warp > 0 ? value + totals[warp - 1] : value;
}

__global__ void scan_blocks(const unsigned *in, unsigned *out, unsigned *block_totals, size_t n) {
  size_t i = size_t(blockIdx.x) * kThreads + threadIdx.x;
  unsigned sum = scan_block(i < n ? in[i] : 0);
  if (i < n)
    out[i] = sum;
  if (threadIdx.x == kThreads - 1)
    block_totals[blockIdx.x] = sum;
}

// One block, which carries the sum from one piece of the totals to the next.
__global__ void scan_totals(unsigned *totals, unsigned count) {
  __shared__ unsigned carry;
  if (threadIdx.x == 0)
    carry = 0;
  for (unsigned first = 0; first < count; first += kThreads) {
    unsigned i = first + threadIdx.x;
    unsigned sum = scan_block(i < count ? totals[i] : 0) + carry;
    if (i < count)
      totals[i] = sum;
    __syncthreads(); // everybody has read the carry
    if (threadIdx.x == kThreads - 1)
      carry = sum;
    __syncthreads();
  }
}

__global__ void add_totals(unsigned *out, const unsigned *block_totals, size_t n) {
  size_t i = size_t(blockIdx.x) * kThreads + threadIdx.x;
  if (blockIdx.x > 0 && i < n)
    out[i] += block_totals[blockIdx.x - 1];
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 50000);
  unsigned blocks = unsigned((n + kThreads - 1) / kThreads);
  std::vector<unsigned> values(n), result(n);
  for (size_t i = 0; i < n; i++)
    values[i] = unsigned(i * 2654435761u) >> 8;

  unsigned *in, *out, *totals;
  CHECK(cudaMalloc(&in, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&out, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&totals, blocks * sizeof(unsigned)));
  CHECK(cudaMemcpy(in, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  scan_blocks<<<blocks, kThreads>>>(in, out, totals, n);
  CHECK_LAUNCH();
  scan_totals<<<1, kThreads>>>(totals, blocks);
  CHECK_LAUNCH();
  add_totals<<<blocks, kThreads>>>(out, totals, n);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(result.data(), out, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(in));
  CHECK(cudaFree(out));
  CHECK(cudaFree(totals));

  bool right = true;
  unsigned sum = 0;
  for (size_t i = 0; i < n; i++) {
    sum += values[i];
    right = right && result[i] == sum;
  }
  printf("scan: n=%zu ", n);
  return report(right);
}
