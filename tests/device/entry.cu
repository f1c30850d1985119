// A kernel's entry takes its arguments as a launch passes them; its tables say how.
// RUN: %host-O2 | FileCheck %s
// RUN: %host-O0 | FileCheck %s
#include "cuda.h"

struct Pair {
  double *first;
  char second;
};

// CHECK: [[TABLE:@softgpu.parameters[.0-9]*]] = private constant [4 x { i32, i32 }] [{ i32, i32 } { i32 8, i32 8 }, { i32, i32 } { i32 16, i32 8 }, { i32, i32 } { i32 1, i32 1 }, { i32, i32 } { i32 4, i32 4 }]
// The stub, the name, the entry, no error, four parameters, no barrier, no shared memory; a bound of 256,
// and no frame.
// CHECK: @softgpu.kernels = private constant [1 x {{.*}} { ptr @_Z19__device_stub__takeP{{.*}}, ptr @softgpu.text{{.*}}, ptr @softgpu.entry._Z4takePf4Pairbi, ptr null, ptr [[TABLE]], i32 4, i32 0, i32 0, i32 {{[0-9]+}}, i32 {{[0-9]+}}, i32 256, i64 0 }]
// CHECK: @softgpu.image = private constant {{.*}} { i32 3, i32 1, ptr @softgpu.kernels, {{.*}} ptr @softgpu.variables_slot, ptr @softgpu.self_slot }
// CHECK: @llvm.global_ctors = {{.*}}{ i32 101, ptr @softgpu.register, ptr null }

// CHECK: define internal void @softgpu.entry._Z4takePf4Pairbi(ptr [[SELF:%[-A-Za-z0-9._]+]], ptr {{.*}}[[ARGUMENTS:%[-A-Za-z0-9._]+]])
// CHECK-NOT: alloca
// The thread's own slot is right before anything else runs.
// CHECK: [[SLOT:%[-A-Za-z0-9._]+]] = {{.*}}call {{.*}}@llvm.threadlocal.address.p0(ptr @softgpu.self)
// CHECK: store ptr [[SELF]], ptr [[SLOT]]
// CHECK-DAG: [[BOOL:%[-A-Za-z0-9._]+]] = load i8,
// CHECK-DAG: trunc {{.*}}i8 [[BOOL]] to i1
// CHECK-NOT: nvvm
// CHECK: ret void
__global__ void __launch_bounds__(256) take(float *out, Pair pair, bool flag, int n) {
  pair.second += n;
  if (flag)
    out[threadIdx_x] = *pair.first + pair.second;
}

// The registration is a weak one: null on a real GPU.
// CHECK: declare extern_weak void @__softgpuRegisterImage(ptr)
// CHECK: define internal void @softgpu.register()
// CHECK: icmp {{(eq|ne)}} ptr @__softgpuRegisterImage, null
// CHECK: call void @__softgpuRegisterImage(ptr {{.*}}@softgpu.image)

void host() { take<<<1, 256>>>(nullptr, Pair{}, true, 1); }
