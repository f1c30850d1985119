// A module that has its kernels is left alone: the pass may run again over its own output.
// RUN: %host-O2 > %t.once.ll
// RUN: env MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify %t.once.ll -o %t.again.ll
// RUN: grep -c @softgpu.register %t.once.ll > %t.once
// RUN: grep -c @softgpu.register %t.again.ll > %t.again
// RUN: diff %t.once %t.again
#include "cuda.h"

__global__ void kernel(int *out) { *out = 1; }
