// Only kernels whose threads may wait for each other are marked so: by a barrier, a shuffle, a vote,
// in a function they call, or behind a pointer.
// RUN: %host-O2 | FileCheck %s
#include "cuda.h"

// CHECK: @softgpu.kernels = {{.*}}@softgpu.entry._Z5alonePi, ptr null, ptr {{[^,]*}}, i32 1, i32 0, {{.*}}@softgpu.entry._Z7barrierPi, ptr null, ptr {{[^,]*}}, i32 1, i32 1, {{.*}}@softgpu.entry._Z7shufflePi, ptr null, ptr {{[^,]*}}, i32 1, i32 1, {{.*}}@softgpu.entry._Z6callerPi, ptr null, ptr {{[^,]*}}, i32 1, i32 1, {{.*}}@softgpu.entry._Z8indirectPPFvvE, ptr null, ptr {{[^,]*}}, i32 1, i32 1,

__global__ void alone(int *out) { out[threadIdx_x] = blockIdx_x; }

// CHECK: define internal void @softgpu.entry._Z7barrierPi(
// CHECK: call {{.*}}void @softgpu.barrier(
__global__ void barrier(int *out) {
  out[threadIdx_x] = 1;
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
  out[threadIdx_x + 1] = 1;
}

__global__ void shuffle(int *out) {
#ifdef __CUDA_ARCH__
  *out = __nvvm_shfl_sync_idx_i32(-1, *out, 0, 31);
#endif
}

__attribute__((noinline)) __device__ void meet() {
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
}

__global__ void caller(int *out) {
  meet();
  *out = 1;
}

__global__ void indirect(void (**function)()) { (*function)(); }

// A thread that waited puts its slot right again: others ran meanwhile.
// CHECK: define internal {{.*}}void @softgpu.barrier(
// CHECK: [[SLOT:%[-A-Za-z0-9._]+]] = {{.*}}@llvm.threadlocal.address.p0(ptr @softgpu.self)
// CHECK: [[SELF:%[-A-Za-z0-9._]+]] = load ptr, ptr [[SLOT]]
// CHECK: call void %{{[-A-Za-z0-9._]+}}(ptr [[SELF]], i32
// CHECK: store ptr [[SELF]], ptr
