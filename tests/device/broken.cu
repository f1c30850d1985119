// No fault of the side file breaks the compile.
// RUN: rm -rf %t.side && mkdir -p %t.side
// RUN: %device-ir --cuda-gpu-arch=sm_90 %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb -disable-output
// RUN: sh -c 'for file in %t.side/*; do echo garbage > $file; done'
// RUN: %host-ir %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify -pass-remarks-missed=mgb 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: %host-ir %s | env MGB_SIDE_DIR=/nonexistent/folder %opt -passes=mgb,verify | FileCheck %s
#include "cuda.h"

// CHECK-NOT: softgpu
// CHECK: define {{.*}}void @_Z19__device_stub__nonePi(
// CHECK-NOT: softgpu
// REMARK: remark: {{.*}}no kernel has host code: failed to read {{.*}}: this is not bitcode of this LLVM
__global__ void none(int *out) { *out = 1; }
