// All that is linked in is private to the object and named softgpu.*, and no NVVM name is left.
// RUN: %host-O2 > %t.ll
// RUN: FileCheck %s --check-prefix=NVVM < %t.ll
// RUN: llc -relocation-model=pic -filetype=obj %t.ll -o %t.o
// RUN: llvm-nm --extern-only %t.o | FileCheck %s --implicit-check-not=softgpu
#include "cuda.h"

// NVVM-NOT: nvvm
// NVVM-NOT: addrspace(3)
// NVVM-NOT: ptx_kernel
// NVVM-NOT: "target-cpu"="sm_
// NVVM-NOT: convergent

// CHECK: w __softgpuRegisterImage
namespace {
__device__ int state;
}
static __device__ __attribute__((noinline)) int helper(int x) { return x + state; }
__global__ void kernel(int *out) {
  __shared__ int own;
  own = helper(*out);
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
  *out = own;
}
