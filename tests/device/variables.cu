// Device variables live in one block: with their first contents, the host's shadows, and relocations
// for pointers into the block, constants first. What cannot change stays a constant of the program.
// RUN: %host-O2 | FileCheck %s
#include "cuda.h"

__device__ int counter = 7;
__device__ int table[3] = {1, 2, 3};
__device__ int *second = &table[1];
__device__ const char *text = "hello";
__constant__ float factor;

// CHECK-DAG: [[HELLO:@softgpu.data..str]] = {{.*}}constant [6 x i8] c"hello\00"
// CHECK-DAG: @softgpu.initial = internal {{.*}}constant <{ float, i32, [3 x i32], [4 x i8], ptr, ptr }> <{ float 0.000000e+00, i32 7, [3 x i32] [i32 1, i32 2, i32 3], [4 x i8] zeroinitializer, ptr null, ptr [[HELLO]] }>, align 16
// CHECK-DAG: @softgpu.variable_table = {{.*}}[5 x { ptr, ptr, i64, i64 }] [{ ptr, ptr, i64, i64 } { ptr @factor, ptr {{[^,]*}}, i64 0, i64 4 }, { ptr, ptr, i64, i64 } { ptr @counter, ptr {{[^,]*}}, i64 4, i64 4 }, { ptr, ptr, i64, i64 } { ptr @table, ptr {{[^,]*}}, i64 8, i64 12 }, { ptr, ptr, i64, i64 } { ptr @second, ptr {{[^,]*}}, i64 24, i64 8 }, { ptr, ptr, i64, i64 } { ptr @text, ptr {{[^,]*}}, i64 32, i64 8 }]
// CHECK-DAG: @softgpu.relocations = {{.*}} [1 x { i64, i64 }] [{ i64, i64 } { i64 24, i64 12 }]
// CHECK-DAG: @softgpu.image = {{.*}}, i32 5, i32 1, ptr @softgpu.variable_table, ptr @softgpu.relocations, ptr @softgpu.initial, i64 40, i64 16, ptr

// CHECK: define internal void @softgpu.entry._Z3usePf(
// CHECK: call {{.*}}@llvm.threadlocal.address.p0(ptr @softgpu.variables)
// CHECK: [[BLOCK:%[-A-Za-z0-9._]+]] = load ptr, ptr
// CHECK: getelementptr{{.*}} i8, ptr [[BLOCK]], i64 4
__global__ void use(float *out) {
  *out = factor * *second + text[threadIdx_x];
  counter++;
}
