// What cannot run here is an error of that launch, and of no other kernel.
// REQUIRES: softgpu
// RUN: %mgb-clang %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: inline PTX "fns.b32 $0, $1, 0, 1"
// CHECK-DAG: kernel _Z7tensorsPi cannot run: the software GPU has no inline PTX "mma.sync.aligned.m8n8k4.row.col.f32.f16
// CHECK-DAG: kernel _Z8texturesPi cannot run: the software GPU has no inline PTX "tex.2dms.v4.s32.s32
// CHECK-DAG: kernel _Z8surfacesPi cannot run: the software GPU has no inline PTX "sured.b.add.1d.u32.trap
// CHECK-DAG: kernel _Z8clustersPi cannot run: the software GPU has no inline PTX "multimem.ld_reduce
// CHECK-DAG: kernel _Z9fragmentsPi cannot run: the software GPU has no inline PTX "mma.sp.sync.aligned.m16n8k16
// CHECK: passed
#include "check.h"

__global__ void fine(int *out) { *out = 1; }
__global__ void stops(int *out) { asm volatile("fns.b32 %0, %1, 0, 1;" : "=r"(*out) : "r"(*out)); }

// Matrix instructions of Volta alone, whose fragments are laid out like no others.
__global__ void tensors(int *out) {
  float d[8];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %8}, {%8, %8}, "
               "{%9, %9, %9, %9, %9, %9, %9, %9};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])
               : "r"(0), "f"(0.f));
  *out = d[0];
}
__global__ void textures(int *out) {
  int a, b, c, d;
  asm volatile("tex.2dms.v4.s32.s32 {%0, %1, %2, %3}, [%4, {%5, %5, %5, %5}];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "l"(0ull), "r"(*out));
  *out = a + b + c + d;
}
__global__ void surfaces(int *out) {
  asm volatile("sured.b.add.1d.u32.trap [%0, {%1}], %2;" : : "l"(0ull), "r"(0), "r"(*out));
}
__global__ void clusters(int *out) {
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];" : "=r"(*out) : "l"(out));
}
// Matrices of which only half the elements are stored.
__global__ void fragments(int *out) {
  float d[4] = {};
  asm volatile("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4, %4}, "
               "{%0, %1, %2, %3}, %4, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(0));
  *out = d[0];
}

int main() {
  Array<int> out(1);
  stops<<<1, 1>>>(out.data);
  EXPECT(cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess);
  for (auto kernel : {tensors, textures, surfaces, clusters, fragments}) {
    kernel<<<1, 1>>>(out.data);
    EXPECT(cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess);
  }
  fine<<<1, 1>>>(out.data);
  EXPECT(out.get()[0] == 1);
  return finish();
}
