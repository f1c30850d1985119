// Distances within shared and local memory have 32 bits, as a GPU's addresses of these do: `p[~i]` with an
// unsigned `i` is the element `i + 1` before `p`, and not one 16 GiB past it.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: passed
#include "check.h"

__global__ void fixed(unsigned *out, unsigned mask) {
  __shared__ unsigned s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  unsigned back = threadIdx.x & mask;
  unsigned *p = s + 40;
  out[threadIdx.x] = p[~back];
}

__global__ void dynamic(unsigned *out, unsigned mask) {
  extern __shared__ unsigned d[];
  d[threadIdx.x] = threadIdx.x;
  __syncthreads();
  unsigned *p = d + 32;
  // A choice between two places of the same memory.
  if (threadIdx.x & 1)
    p += 8;
  out[threadIdx.x] = p[~(threadIdx.x & mask)];
}

// Memory beyond 4 GiB of a pointer is not wrapped to where it is not.
__global__ void far(unsigned *out, unsigned *base, size_t distance) { out[threadIdx.x] = base[distance + threadIdx.x]; }

int main() {
  Array<unsigned> out(64);
  fixed<<<1, 64>>>(out.data, 1);
  auto values = out.get();
  for (unsigned i = 0; i < 64; i++)
    EXPECT(values[i] == 39 - (i & 1));
  dynamic<<<1, 64, 64 * sizeof(unsigned)>>>(out.data, 3);
  values = out.get();
  for (unsigned i = 0; i < 64; i++)
    EXPECT(values[i] == (i & 1 ? 39 : 31) - (i & 3));
  Array<unsigned> data(std::vector<unsigned>(64, 7));
  // The sum wraps at 64 bits: the pointer starts far before the array.
  size_t distance = size_t(3) << 31;
  far<<<1, 64>>>(out.data, (unsigned *)((size_t)data.data - distance * sizeof(unsigned)), distance);
  EXPECT(out.get()[63] == 7);
  return finish();
}
