// Atomic operations, on global and shared memory, in all scopes.
#include "conformance.h"

#include <cuda_fp16.h>

// Every thread applies the operation to one of four words; results that depend on the order are not recorded.
#define ON_SHARED(name, T, initial, statement)                                                                         \
  CASE(name, T) {                                                                                                      \
    __shared__ T words[4];                                                                                             \
    unsigned i = threadIdx.x;                                                                                          \
    if (i < 4)                                                                                                         \
      words[i] = initial;                                                                                              \
    __syncthreads();                                                                                                   \
    T *word = &words[i % 4];                                                                                           \
    statement;                                                                                                         \
    __syncthreads();                                                                                                   \
    out[i] = words[i % 4];                                                                                             \
  }
// The same on global memory: words that no thread's result uses.
#define ON_GLOBAL(name, T, initial, statement)                                                                         \
  __device__ T name##_words[4];                                                                                        \
  CASE_OF(name, T, 1, 64, 0) {                                                                                         \
    unsigned i = threadIdx.x;                                                                                          \
    if (i < 4)                                                                                                         \
      name##_words[i] = initial;                                                                                       \
    __syncthreads();                                                                                                   \
    T *word = &name##_words[i % 4];                                                                                    \
    statement;                                                                                                         \
    __syncthreads();                                                                                                   \
    out[i] = *(volatile T *)&name##_words[i % 4];                                                                      \
  }
typedef unsigned long long Long;

ON_SHARED(shared_add, unsigned, 5, atomicAdd(word, any32(i)))
ON_SHARED(shared_add_64, Long, 5, atomicAdd(word, (Long)any64(i)))
ON_SHARED(shared_add_float, float, 1, atomicAdd(word, float(i)))
ON_SHARED(shared_add_double, double, 1, atomicAdd(word, double(i) / 4))
ON_SHARED(shared_sub, int, 5, atomicSub(word, int(i)))
ON_SHARED(shared_min, int, 99, atomicMin(word, int(any32(i))))
ON_SHARED(shared_max, unsigned, 0, atomicMax(word, any32(i)))
ON_SHARED(shared_or, unsigned, 0, atomicOr(word, 1u << i % 32))
ON_SHARED(shared_inc, unsigned, 3, atomicInc(word, 9))
ON_SHARED(shared_dec, unsigned, 3, atomicDec(word, 9))
ON_GLOBAL(global_add, int, -5, atomicAdd(word, int(any32(i))))
ON_GLOBAL(global_add_double, double, 0.5, atomicAdd(word, double(i)))
ON_GLOBAL(global_min_64, long long, 7, atomicMin(word, (long long)any64(i)))
ON_GLOBAL(global_max_64, Long, 7, atomicMax(word, (Long)any64(i)))
ON_GLOBAL(global_and, unsigned, 0xffffffff, atomicAnd(word, ~(1u << i / 4)))
ON_GLOBAL(global_xor, unsigned, 0, atomicXor(word, any32(i)))
ON_GLOBAL(global_or_64, Long, 0, atomicOr(word, 1ull << i))
ON_GLOBAL(block_scope, unsigned, 0, atomicAdd_block(word, i))
ON_GLOBAL(system_scope, unsigned, 0, atomicAdd_system(word, i))
ON_GLOBAL(system_min, int, 50, atomicMin_system(word, int(i)))

CASE(exchange_in_turn, unsigned) {
  __shared__ unsigned slot;
  unsigned i = threadIdx.x, mine = 0;
  if (i == 0)
    slot = 1000;
  for (unsigned turn = 0; turn < 64; turn++) {
    __syncthreads();
    if (turn == i)
      mine = atomicExch(&slot, i);
  }
  out[i] = mine;
}

CASE(results_are_a_permutation, unsigned) {
  __shared__ unsigned next, seen[64];
  unsigned i = threadIdx.x;
  seen[i] = 0;
  if (i == 0)
    next = 0;
  __syncthreads();
  seen[atomicAdd(&next, 1)] = 1;
  __syncthreads();
  out[i] = seen[i];
}

CASE(compare_and_swap_loop, float) {
  __shared__ unsigned word;
  unsigned i = threadIdx.x;
  if (i == 0)
    word = __float_as_uint(1.0f);
  __syncthreads();
  unsigned old = word, assumed;
  do {
    assumed = old;
    old = atomicCAS(&word, assumed, __float_as_uint(__uint_as_float(assumed) + 1.0f));
  } while (assumed != old);
  __syncthreads();
  out[i] = __uint_as_float(word);
}

__device__ unsigned short short_word;
CASE(compare_and_swap_16, unsigned) {
  unsigned i = threadIdx.x;
  if (i == 0)
    short_word = 0;
  __syncthreads();
  unsigned short old = *(volatile unsigned short *)&short_word, assumed;
  do {
    assumed = old;
    old = atomicCAS(&short_word, assumed, (unsigned short)(assumed + 3));
  } while (assumed != old);
  __syncthreads();
  out[i] = *(volatile unsigned short *)&short_word;
}

__device__ Long long_word;
CASE(compare_and_swap_64, Long) {
  unsigned i = threadIdx.x;
  if (i == 0)
    long_word = 1ull << 40;
  __syncthreads();
  Long old = *(volatile Long *)&long_word, assumed;
  do {
    assumed = old;
    old = atomicCAS(&long_word, assumed, assumed + (1ull << 33) + i);
  } while (assumed != old);
  __syncthreads();
  out[i] = *(volatile Long *)&long_word;
}

__device__ unsigned lock_word, guarded[2];
CASE_OF(lock_between_blocks, unsigned, 16, 32, 0) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&lock_word, 0u, 1u) != 0)
      ;
    __threadfence();
    volatile unsigned *words = guarded;
    words[0] = words[0] + 1;
    words[1] = words[1] + words[0];
    __threadfence();
    atomicExch(&lock_word, 0u);
    // The last one through sees what all did.
    if (words[0] == 16)
      out[0] = words[1];
  }
}

__device__ unsigned arrived, published;
CASE_OF(blocks_wait_for_each_other, unsigned, 8, 32, 0) {
  // A barrier over the grid by hand: all blocks must make progress together.
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&arrived, 1) == gridDim.x - 1)
      atomicExch(&published, 12345u);
    while (atomicAdd(&published, 0u) == 0)
      ;
  }
  __syncthreads();
  out[linear()] = *(volatile unsigned *)&published;
}

CASE(orders_of_memory, unsigned) {
  __shared__ unsigned data, flag;
  unsigned i = threadIdx.x, seen = 0;
  if (i == 0)
    data = flag = 0;
  __syncthreads();
  if (i == 32) {
    data = 77;
    __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
  }
  if (i == 0) {
    while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 0)
      ;
    seen = data;
  }
  out[i] = seen;
}
