// Kinds of memory that device code sees.
#include "conformance.h"

__constant__ unsigned constants[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
CASE(constant_memory, unsigned) { out[threadIdx.x] = constants[threadIdx.x]; }

__device__ unsigned initialized[4] = {10, 20, 30, 40};
__device__ unsigned *pointer_to_global = initialized + 2;
CASE(global_with_initial_value, unsigned) {
  out[threadIdx.x] = initialized[threadIdx.x % 4] + *pointer_to_global;
}

CASE(local_array, unsigned) {
  unsigned i = threadIdx.x, local[16];
  for (unsigned at = 0; at < 16; at++)
    local[at] = any32(i + at);
  for (unsigned at = 0; at < 16; at++)
    local[local[at] % 16] += at;
  out[i] = local[i % 16];
}

// With what the hardware is told about caches, by instruction: clang has only some of the intrinsics.
#define LOAD(hint)                                                                                                     \
  __device__ unsigned hint##_words[64];                                                                                \
  CASE(load_##hint, unsigned) {                                                                                        \
    hint##_words[threadIdx.x] = any32(threadIdx.x);                                                                    \
    __threadfence_block();                                                                                             \
    unsigned value;                                                                                                    \
    asm volatile("ld.global." #hint ".u32 %0, [%1];" : "=r"(value) : "l"(&hint##_words[threadIdx.x]) : "memory");      \
    out[threadIdx.x] = value;                                                                                          \
  }
LOAD(ca)
LOAD(cg)
LOAD(cs)
LOAD(lu)
LOAD(cv)
CASE(load_read_only, unsigned) { out[threadIdx.x] = __ldg(&initialized[threadIdx.x % 4]); }
CASE(load_vector_read_only, unsigned) {
  const int2 pair = __ldg(reinterpret_cast<const int2 *>(initialized) + threadIdx.x % 2);
  out[threadIdx.x] = unsigned(pair.x * 100 + pair.y);
}

#define STORE(hint)                                                                                                    \
  CASE(store_##hint, unsigned) {                                                                                       \
    asm volatile("st.global." #hint ".u32 [%0], %1;" ::"l"(&out[threadIdx.x]), "r"(any32(threadIdx.x)) : "memory");    \
  }
STORE(wb)
STORE(cg)
STORE(cs)
STORE(wt)

CASE(vector_loads, unsigned) {
  __shared__ alignas(16) unsigned words[256];
  unsigned i = threadIdx.x;
  for (unsigned at = 0; at < 4; at++)
    words[i * 4 + at] = any32(i * 4 + at);
  __syncthreads();
  uint4 four = *reinterpret_cast<uint4 *>(&words[(63 - i) * 4]);
  uint2 two = *reinterpret_cast<uint2 *>(&words[i * 2]);
  out[i] = four.x ^ four.y + four.z ^ four.w + two.x ^ two.y;
}

CASE(bytes_and_shorts, unsigned) {
  __shared__ signed char bytes[64];
  __shared__ short shorts[64];
  unsigned i = threadIdx.x;
  bytes[i] = (signed char)any32(i);
  shorts[i] = short(any32(i));
  __syncthreads();
  out[i] = unsigned(bytes[63 - i]) + unsigned(shorts[63 - i]);
}

CASE(copy_within_the_device, unsigned) {
  struct Pack {
    unsigned char bytes[13];
  } from, to;
  unsigned i = threadIdx.x, sum = 0;
  memset(&to, 0, sizeof to);
  for (unsigned at = 0; at < 13; at++)
    from.bytes[at] = (unsigned char)any32(i + at);
  memcpy(&to, &from, 1 + i % 13);
  for (unsigned at = 0; at < 13; at++)
    sum = sum * 31 + to.bytes[at];
  out[i] = sum;
}

struct Parameters {
  double scale;
  unsigned table[16];
  char tail;
};
__global__ void by_value_kernel(unsigned *out, Parameters by_value, short more) {
  by_value.table[threadIdx.x % 16] += 1;
  out[threadIdx.x] =
      unsigned(by_value.scale * 2) + by_value.table[threadIdx.x % 16] + unsigned(by_value.tail) + unsigned(more);
}
__global__ void constant_parameter_kernel(unsigned *out, const __grid_constant__ Parameters kept) {
  const unsigned *table = kept.table;
  out[threadIdx.x] = table[threadIdx.x % 16] + unsigned(kept.tail);
}
static Parameters parameters() {
  Parameters made = {1.5, {}, 'x'};
  for (unsigned i = 0; i < 16; i++)
    made.table[i] = i * i;
  return made;
}
template <class Launch> static void launched(conformance::Record &record, Launch launch) {
  unsigned *device, host[64];
  conformance::check("cudaMalloc", cudaMalloc(&device, sizeof host));
  launch(device);
  conformance::check("cudaMemcpy", cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (unsigned value : host)
    put(record, value);
}
HOST_CASE(struct_by_value) {
  launched(record, [](unsigned *device) { by_value_kernel<<<1, 64>>>(device, parameters(), -3); });
}
HOST_CASE(grid_constant_parameter) {
  launched(record, [](unsigned *device) { constant_parameter_kernel<<<1, 64>>>(device, parameters()); });
}

CASE_OF(fences, unsigned, 1, 64, 0) {
  __threadfence();
  __threadfence_system();
  out[threadIdx.x] = 1;
}

CASE(address_spaces, unsigned) {
  unsigned local = threadIdx.x, *pointer = &local;
  out[threadIdx.x] = __isLocal(pointer) + 2 * __isConstant(constants) + 4 * __isGlobal(initialized) + 8 * __isShared(out);
}

template <class T, unsigned N> __global__ void templated_kernel(T *out) { out[threadIdx.x] = T(threadIdx.x * N); }
HOST_CASE(templated_kernels) {
  conformance::run_kernel<unsigned>(record, templated_kernel<unsigned, 3>, 1, 64, 0);
  conformance::run_kernel<unsigned>(record, templated_kernel<unsigned, 5>, 1, 64, 0);
}

// A shared address has 32 bits: a distance of 2^32 - 1 elements is one of -1.
CASE(shared_distances_wrap, unsigned) {
  __shared__ unsigned words[64];
  unsigned i = threadIdx.x;
  words[i] = any32(i);
  __syncthreads();
  unsigned *middle = words + 40;
  out[i] = middle[~(i % 40)];
}
