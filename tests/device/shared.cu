// Static shared memory is laid out per kernel, dynamic starts where the launch's does.
// RUN: %host-O2 | FileCheck %s
#include "cuda.h"

__shared__ double common[4];
extern __shared__ float dynamic[];

// 32 bytes that both use, then each kernel's own at the same place; the third uses none at all.
// CHECK: @softgpu.kernels = {{.*}}@softgpu.entry._Z3onePd, ptr null, ptr {{[^,]*}}, i32 1, i32 0, i32 96, i32 {{.*}}@softgpu.entry._Z3twoPd, ptr null, ptr {{[^,]*}}, i32 1, i32 0, i32 832, i32 {{.*}}@softgpu.entry._Z5threePf, ptr null, ptr {{[^,]*}}, i32 1, i32 0, i32 0, i32

// CHECK-NOT: addrspace(3) global
// CHECK: define internal void @softgpu.entry._Z3onePd(
// CHECK: [[AT:%[-A-Za-z0-9._]+]] = getelementptr{{.*}} i8, ptr %0, i64 56
// CHECK: [[BASE:%[-A-Za-z0-9._]+]] = load ptr, ptr [[AT]], align 8, !invariant.load
// CHECK: getelementptr{{.*}} i8, ptr [[BASE]], i64 32
__global__ void one(double *out) {
  __shared__ double own[8];
  own[threadIdx_x] = *out;
  common[threadIdx_x] = own[*(int *)out];
  *out = common[0];
}

// CHECK: define internal void @softgpu.entry._Z3twoPd(
__global__ void two(double *out) {
  __shared__ double own[100];
  own[threadIdx_x] = *out;
  common[threadIdx_x] = own[*(int *)out];
  *out = common[0];
}

// CHECK: define internal void @softgpu.entry._Z5threePf(
// CHECK: getelementptr{{.*}} i8, ptr %0, i64 64
__global__ void three(float *out) {
  dynamic[threadIdx_x] = *out;
  *out = dynamic[*(int *)out];
}
