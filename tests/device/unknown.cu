// An intrinsic without a counterpart on the host is refused by name, for the kernels that reach it and for no
// other; the compile goes on, and reports it only in a remark.
// RUN: %host-O2 2> %t.quiet | FileCheck %s
// RUN: count 0 < %t.quiet
// RUN: %host-O2 -pass-remarks-missed=mgb 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
#include "cuda.h"

// CHECK-DAG: [[FNS:@softgpu.text[.0-9]*]] = {{.*}}c"the software GPU has no inline PTX \22fns.b32 $0, $0, 0, 1\22\00"
// CHECK-DAG: [[LAUNCH:@softgpu.text[.0-9]*]] = {{.*}}c"the software GPU has no launches from the device (cudaLaunchDevice)\00"
// CHECK-DAG: [[FAR:@softgpu.text[.0-9]*]] = {{.*}}c"the software GPU has no variable \22elsewhere\22 of another source file\00"
// CHECK-DAG: [[INTRINSIC:@softgpu.text[.0-9]*]] = {{.*}}c"the software GPU has no function \22llvm.nvvm.read.ptx.sreg.pm0\22\00"
// CHECK: @softgpu.kernels = {{.*}}@softgpu.entry._Z4finePi, ptr null, {{.*}}, ptr null, ptr [[FNS]], {{.*}}, ptr null, ptr [[LAUNCH]], {{.*}}, ptr null, ptr [[FAR]], {{.*}}, ptr null, ptr [[INTRINSIC]],
// CHECK-NOT: @softgpu.entry.{{.*}}stops

// REMARK: remark: {{.*}}kernel stops(int*) has no host code: the software GPU has no inline PTX "fns.b32 $0, $0, 0, 1"
// REMARK: remark: {{.*}}kernel launches(int*) has no host code: the software GPU has no launches from the device (cudaLaunchDevice)

extern "C" __device__ int cudaLaunchDevice(void *);
extern __device__ int elsewhere;

__global__ void fine(int *out) { *out = 1; }

__global__ void stops(int *out) {
#ifdef __CUDA_ARCH__
  asm volatile("fns.b32 %0, %0, 0, 1;" : "+r"(*out));
#endif
}

__device__ int deeper() { return cudaLaunchDevice(nullptr); }
__global__ void launches(int *out) { *out = deeper(); }

__global__ void reads(int *out) { *out = elsewhere; }

__global__ void measures(int *out) {
#ifdef __CUDA_ARCH__
  *out = __nvvm_read_ptx_sreg_pm0();
#endif
}
