// What the threads of a warp do together.
#include "conformance.h"

constexpr unsigned kAll = 0xffffffff;

CASE(shuffle, unsigned) { out[threadIdx.x] = __shfl_sync(kAll, any32(threadIdx.x), threadIdx.x * 7 + 1); }
CASE(shuffle_within_8, unsigned) { out[threadIdx.x] = __shfl_sync(kAll, any32(threadIdx.x), threadIdx.x * 3, 8); }
CASE(shuffle_up, unsigned) { out[threadIdx.x] = __shfl_up_sync(kAll, any32(threadIdx.x), 3); }
CASE(shuffle_up_within_16, unsigned) { out[threadIdx.x] = __shfl_up_sync(kAll, any32(threadIdx.x), 5, 16); }
CASE(shuffle_down, unsigned) { out[threadIdx.x] = __shfl_down_sync(kAll, any32(threadIdx.x), 9); }
CASE(shuffle_down_within_4, unsigned) { out[threadIdx.x] = __shfl_down_sync(kAll, any32(threadIdx.x), 1, 4); }
CASE(shuffle_xor, unsigned) { out[threadIdx.x] = __shfl_xor_sync(kAll, any32(threadIdx.x), 21); }
CASE(shuffle_64, unsigned long long) {
  out[threadIdx.x] = __shfl_xor_sync(kAll, (unsigned long long)any64(threadIdx.x), 13);
}
CASE(shuffle_double, double) { out[threadIdx.x] = __shfl_down_sync(kAll, any_double(threadIdx.x), 2); }
CASE(shuffle_of_some, unsigned) {
  unsigned i = threadIdx.x, value = 0;
  if (i % 4 < 2)
    value = __shfl_sync(0x33333333, i + 100, 5);
  out[i] = value;
}

CASE(vote_all, int) { out[threadIdx.x] = __all_sync(kAll, threadIdx.x < 32) + 2 * __all_sync(kAll, threadIdx.x != 40); }
CASE(vote_any, int) { out[threadIdx.x] = __any_sync(kAll, threadIdx.x == 40); }
CASE(vote_unanimous, int) {
  int same;
  asm("{ .reg .pred p, q; setp.lt.u32 q, %1, 32; vote.sync.uni.pred p, q, 0xffffffff; selp.s32 %0, 1, 0, p; }"
      : "=r"(same)
      : "r"(threadIdx.x));
  out[threadIdx.x] = same;
}
CASE(ballot, unsigned) { out[threadIdx.x] = __ballot_sync(kAll, any32(threadIdx.x) & 1); }
CASE(ballot_of_some, unsigned) {
  unsigned i = threadIdx.x, votes = 0;
  if (i % 32 >= 10)
    votes = __ballot_sync(0xfffffc00, i % 3 == 0);
  out[i] = votes;
}
CASE(active_mask_when_split, unsigned) {
  unsigned i = threadIdx.x, mask = 0;
  if (i % 32 < 12) {
    __syncwarp(0x00000fff);
    mask = __activemask() & 0x00000fff;
  }
  out[i] = mask;
}

CASE(match_any, unsigned) { out[threadIdx.x] = __match_any_sync(kAll, threadIdx.x % 5); }
CASE(match_any_64, unsigned) { out[threadIdx.x] = __match_any_sync(kAll, (unsigned long long)(threadIdx.x / 3) << 33); }
CASE(match_all, unsigned) {
  int same;
  unsigned mask = __match_all_sync(kAll, threadIdx.x / 32, &same);
  unsigned none = __match_all_sync(kAll, threadIdx.x, &same);
  out[threadIdx.x] = mask ^ none ^ unsigned(same);
}

CASE(reduce_add, unsigned) { out[threadIdx.x] = __reduce_add_sync(kAll, any32(threadIdx.x)); }
CASE(reduce_min, int) { out[threadIdx.x] = __reduce_min_sync(kAll, int(any32(threadIdx.x))); }
CASE(reduce_max, unsigned) { out[threadIdx.x] = __reduce_max_sync(kAll, any32(threadIdx.x)); }
CASE(reduce_and, unsigned) { out[threadIdx.x] = __reduce_and_sync(kAll, any32(threadIdx.x) | 0xf0f); }
CASE(reduce_or, unsigned) { out[threadIdx.x] = __reduce_or_sync(kAll, 1u << threadIdx.x % 7); }
CASE(reduce_xor, unsigned) { out[threadIdx.x] = __reduce_xor_sync(kAll, any32(threadIdx.x)); }
CASE(reduce_of_some, unsigned) {
  unsigned i = threadIdx.x, sum = 0;
  if (i & 1)
    sum = __reduce_add_sync(0xaaaaaaaa, i);
  out[i] = sum;
}

CASE(exchange_through_memory, unsigned) {
  __shared__ unsigned words[64];
  unsigned i = threadIdx.x;
  words[i] = any32(i);
  __syncwarp();
  unsigned other = words[i ^ 1];
  __syncwarp();
  words[i] = other + 1;
  __syncwarp();
  out[i] = words[i ^ 2];
}

CASE(scan_in_a_divergent_loop, unsigned) {
  unsigned i = threadIdx.x, value = i + 1, rounds = 0;
  for (unsigned step = 1; step < 32; step *= 2) {
    unsigned below = __shfl_up_sync(kAll, value, step);
    if (i % 32 >= step)
      value += below;
    // Paths of different lengths between two exchanges.
    for (unsigned spin = 0; spin < i % 5; spin++)
      rounds += spin ^ step;
  }
  out[i] = value + rounds * 1000;
}

CASE_OF(last_warp_is_not_full, unsigned, 1, 50, 0) {
  unsigned i = threadIdx.x, mask = i < 32 ? kAll : 0x0003ffff;
  out[i] = __ballot_sync(mask, i % 2) + __shfl_sync(mask, i, 3);
}

CASE(warp_leader_elected, unsigned) {
  unsigned leader;
  asm volatile("{ .reg .pred p; .reg .b32 who; elect.sync who|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(leader));
  out[threadIdx.x] = __popc(__ballot_sync(kAll, leader));
}
