// The device run leaves its bitcode for the host run, and changes nothing; the host run takes the
// highest architecture; without the folder nothing is linked.
// RUN: rm -rf %t.side && mkdir -p %t.side
// RUN: %device-ir --cuda-gpu-arch=sm_90 %s > %t.90.ll
// RUN: env MGB_SIDE_DIR=%t.side %opt -passes=mgb %t.90.ll -o %t.90.after.ll
// RUN: opt -S -passes=verify %t.90.ll -o %t.90.before.ll
// RUN: diff %t.90.before.ll %t.90.after.ll
// RUN: %device-ir --cuda-gpu-arch=sm_75 %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb -disable-output
// RUN: ls %t.side | FileCheck %s --check-prefix=FILES
// RUN: %host-ir %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify | FileCheck %s
// RUN: %host-ir %s | %opt -passes=mgb,verify | FileCheck %s --check-prefix=NONE
// RUN: %device-ir --cuda-gpu-arch=sm_90 %s | %opt -passes=mgb -disable-output
#include "cuda.h"

// FILES: {{^[0-9a-f]+}}-side-cu.sm_75.bc
// FILES: {{^[0-9a-f]+}}-side-cu.sm_90.bc

// CHECK: define internal void @softgpu.entry._Z4archPi(
// CHECK: store i32 900,
// NONE-NOT: softgpu
__global__ void arch(int *out) {
#ifdef __CUDA_ARCH__
  *out = __CUDA_ARCH__;
#endif
}
