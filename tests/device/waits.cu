// Only kernels whose threads may wait for each other are marked so: by a barrier, a shuffle, a vote, in a
// function they call, or behind a pointer. They become coroutines, split where they wait, unless that is in
// a recursive function or behind a pointer.
// RUN: %host-O2 | FileCheck %s
// RUN: %host-O0 | FileCheck %s
// RUN: %host-O2 | FileCheck --check-prefix=SLOT %s
#include "cuda.h"

// CHECK: @softgpu.kernels = {{.*}}@softgpu.entry._Z5alonePi, ptr null, ptr {{[^,]*}}, i32 1, i32 0,{{.*}}@softgpu.entry._Z7barrierPi.thread, ptr null, ptr {{[^,]*}}, i32 1, i32 3,{{.*}}@softgpu.entry._Z7shufflePi.thread, ptr null, ptr {{[^,]*}}, i32 1, i32 3,{{.*}}@softgpu.entry._Z6callerPi.thread, ptr null, ptr {{[^,]*}}, i32 1, i32 3,{{.*}}@softgpu.entry._Z8indirectPPFvvE, ptr null, ptr {{[^,]*}}, i32 1, i32 1,{{.*}}@softgpu.entry._Z7recursePi, ptr null, ptr {{[^,]*}}, i32 1, i32 1,

__global__ void alone(int *out) { out[threadIdx_x] = blockIdx_x; }

// Resumed, it stores, asks for the barrier, and returns; resumed again, it stores and has ended.
// CHECK: define internal void @softgpu.entry._Z7barrierPi.thread.resume(ptr {{.*}}[[FRAME:%[-A-Za-z0-9._]+]])
// CHECK: switch
// CHECK: store i32 1,
// CHECK: call {{.*}}void @softgpu.barrier(
// CHECK: ret void
// CHECK: store i32 1,
// CHECK: store ptr null, ptr [[FRAME]]
// CHECK: ret void
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

__device__ void deeper(int n) {
  if (n > 0)
    deeper(n - 1);
  meet();
  if (n > 1)
    deeper(n - 2);
}

__global__ void recurse(int *out) { deeper(*out); }

// A thread that waited on its stack puts its slot right again: others ran meanwhile.
// SLOT: define internal {{.*}}void @softgpu.barrier(
// SLOT: [[SLOT:%[-A-Za-z0-9._]+]] = {{.*}}@llvm.threadlocal.address.p0(ptr @softgpu.self)
// SLOT: [[SELF:%[-A-Za-z0-9._]+]] = load ptr, ptr [[SLOT]]
// SLOT: call void %{{[-A-Za-z0-9._]+}}(ptr [[SELF]], i32
// SLOT: store ptr [[SELF]], ptr
