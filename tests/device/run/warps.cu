// What lanes of a warp do together: shuffles, votes, matches, reductions, cooperative groups.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 -I%cuda/include/cccl %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void sums(const int *in, int *out) {
  int t = threadIdx.x, v = in[t];
  for (int k = 16; k > 0; k >>= 1)
    v += __shfl_down_sync(~0u, v, k);
  unsigned odd = __ballot_sync(~0u, in[t] & 1);
  double neighbour = __shfl_xor_sync(~0u, (double)in[t], 1);
  int same = __match_any_sync(~0u, in[t] % 4), first = __shfl_sync(~0u, in[t], 0, 8);
  int *mine = out + t / 32 * 5;
  if (t % 32 == 0)
    mine[0] = v, mine[1] = __popc(odd), mine[2] = (int)neighbour;
  if (t % 32 == 21)
    mine[3] = same, mine[4] = first;
}

__global__ void reductions(int *out) {
  int t = threadIdx.x;
  out[t] = __reduce_add_sync(~0u, t) + 1000 * __reduce_max_sync(~0u, t) + 100000 * __any_sync(~0u, t == 3) +
           200000 * __all_sync(~0u, t < 31);
}

__global__ void halves(int *out) {
  int t = threadIdx.x;
  unsigned mask = t < 16 ? 0xffff : 0xffff0000;
  if (t < 16)
    out[t] = __shfl_up_sync(mask, t, 1);
  else
    out[t] = __shfl_up_sync(mask, 2 * t, 2);
  __syncwarp();
}

__global__ void groups(int *out) {
  auto block = cg::this_thread_block();
  __shared__ int values[64];
  int rank = block.thread_rank();
  values[rank] = rank;
  block.sync();
  out[rank] = values[63 - rank];
  auto warp = cg::tiled_partition<32>(block);
  int v = rank;
  for (int k = warp.size() / 2; k > 0; k /= 2)
    v += warp.shfl_down(v, k);
  block.sync();
  if (warp.thread_rank() == 0)
    out[warp.meta_group_rank()] = v;
}

// Each lane asks about those below it, not about itself: not defined, and answered by all GPUs alike.
__global__ void below(unsigned *out) {
  unsigned lane = threadIdx.x;
  out[lane] = __ballot_sync((1u << lane) - 1, lane % 3 == 0);
}

int main() {
  {
    std::vector<int> values(64);
    for (int i = 0; i < 64; i++)
      values[i] = i;
    Array<int> in(values), out(10);
    sums<<<1, 64>>>(in.data, out.data);
    EXPECT(out.get() == (std::vector<int>{496, 16, 1, 0x22222222, 16, 1520, 16, 33, 0x22222222, 48}));
  }
  {
    Array<int> out(32);
    reductions<<<1, 32>>>(out.data);
    EXPECT(out.get() == std::vector<int>(32, 496 + 31000 + 100000));
  }
  {
    Array<int> out(32);
    halves<<<1, 32>>>(out.data);
    auto values = out.get();
    EXPECT(values[0] == 0 && values[15] == 14 && values[20] == 36);
  }
  {
    Array<int> out(64);
    groups<<<1, 64>>>(out.data);
    EXPECT(out.get()[0] == 496 && out.get()[1] == 1520 && out.get()[63] == 0);
  }
  {
    Array<unsigned> out(32);
    below<<<1, 32>>>(out.data);
    auto values = out.get();
    for (unsigned lane = 0; lane < 32; lane++)
      EXPECT(values[lane] == (0x49249249u & ((1u << lane) - 1)));
  }
  return finish();
}
