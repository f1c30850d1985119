// Cooperative groups.
#include "conformance.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

CASE(tile_of_8_ranks, unsigned) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  out[threadIdx.x] = tile.thread_rank() | tile.meta_group_rank() << 8 | tile.meta_group_size() << 16;
}
CASE(tile_of_4_shuffle, unsigned) {
  auto tile = cg::tiled_partition<4>(cg::this_thread_block());
  out[threadIdx.x] = tile.shfl(any32(threadIdx.x), 2) ^ tile.shfl_down(any32(threadIdx.x), 1);
}
CASE(tile_of_16_votes, unsigned) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  out[threadIdx.x] = tile.ballot(threadIdx.x % 3 == 0) | tile.any(threadIdx.x == 20) << 16 | tile.all(threadIdx.x < 32) << 17;
}
CASE(tile_of_32_reduce, unsigned) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  out[threadIdx.x] = cg::reduce(tile, any32(threadIdx.x), cg::plus<unsigned>());
}
CASE(tile_of_8_reduce, int) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  out[threadIdx.x] = cg::reduce(tile, int(any32(threadIdx.x)), cg::less<int>());
}
CASE(tile_scan, unsigned) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  out[threadIdx.x] = cg::inclusive_scan(tile, threadIdx.x) + 1000 * cg::exclusive_scan(tile, threadIdx.x % 4);
}
CASE(coalesced_threads, unsigned) {
  unsigned i = threadIdx.x, seen = 0;
  if (i % 3 == 1) {
    // Which threads come together is the machine's choice: what they compute together is not.
    auto group = cg::coalesced_threads();
    seen = group.thread_rank() < group.size();
    group.sync();
  }
  out[i] = seen;
}
CASE(labeled_partition, unsigned) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto group = cg::labeled_partition(warp, threadIdx.x % 3);
  out[threadIdx.x] = group.size() * 100 + group.thread_rank();
}
CASE(block_group, unsigned) {
  __shared__ unsigned words[64];
  auto block = cg::this_thread_block();
  words[block.thread_rank()] = any32(block.thread_rank());
  block.sync();
  out[threadIdx.x] = words[block.size() - 1 - block.thread_rank()];
}
CASE(block_arrive_and_wait, unsigned) {
  __shared__ unsigned words[64];
  auto block = cg::this_thread_block();
  words[threadIdx.x] = threadIdx.x + 1;
  auto token = block.barrier_arrive();
  block.barrier_wait(std::move(token));
  out[threadIdx.x] = words[(threadIdx.x + 9) % 64];
}

__device__ unsigned grid_words[4 * 64];
__global__ void grid_sync_kernel(unsigned *out) {
  auto grid = cg::this_grid();
  unsigned rank = unsigned(grid.thread_rank()), size = unsigned(grid.size());
  grid_words[rank] = rank + 1;
  for (int round = 0; round < 3; round++) {
    grid.sync();
    unsigned other = *(volatile unsigned *)&grid_words[size - 1 - rank];
    grid.sync();
    grid_words[rank] = other + round;
  }
  grid.sync();
  out[rank] = *(volatile unsigned *)&grid_words[(rank + 64) % size];
}
HOST_CASE(grid_sync) {
  unsigned *device;
  conformance::check("cudaMalloc", cudaMalloc(&device, 1024));
  void *arguments[] = {&device};
  conformance::check("launch", cudaLaunchCooperativeKernel((const void *)grid_sync_kernel, dim3(4), dim3(64), arguments,
                                                           0, nullptr));
  unsigned host[256];
  conformance::check("cudaMemcpy", cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (unsigned value : host)
    put(record, value);
}
HOST_CASE(cooperative_grid_too_large) {
  unsigned *device = nullptr;
  void *arguments[] = {&device};
  put(record, int(cudaLaunchCooperativeKernel((const void *)grid_sync_kernel, dim3(1000000), dim3(64), arguments, 0,
                                              nullptr)));
  put(record, int(cudaGetLastError()));
}
