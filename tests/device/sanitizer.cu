// Kernels are instrumented where the host's code is, and only there.
// RUN: rm -rf %t.side && mkdir -p %t.side
// RUN: %device-ir --cuda-gpu-arch=sm_90 %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb -disable-output
// RUN: %host-ir -fsanitize=address %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify | FileCheck %s
// RUN: %host-ir %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify | FileCheck %s --check-prefix=NONE
#include "cuda.h"

// CHECK: define internal void @softgpu.entry._Z5plainPi({{.*}} [[KERNEL:#[0-9]+]]
// CHECK: attributes [[KERNEL]] = {{.*}} sanitize_address
// NONE-NOT: sanitize_address
__global__ void plain(int *out) {
  int row[4];
  row[*out & 3] = 1;
  *out = row[1];
}
