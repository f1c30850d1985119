// What cannot run here is an error of that launch, and of no other kernel.
// REQUIRES: softgpu
// RUN: %mgb-clang %s -o %t && %softgpu %t 2>&1 | FileCheck %s
// CHECK: inline PTX "fns.b32 $0, $1, 0, 1"
// CHECK-DAG: kernel _Z7tensorsPi cannot run: the software GPU has no inline PTX "mma.sync.aligned.m8n8k4
// CHECK-DAG: kernel _Z8texturesPi cannot run: the software GPU has no inline PTX "tex.1d.v4.s32.s32
// CHECK-DAG: kernel _Z8surfacesPi cannot run: the software GPU has no inline PTX "suld.b.1d.b32.trap
// CHECK-DAG: kernel _Z8clustersPi cannot run: the software GPU has no inline PTX "multimem.ld_reduce
// CHECK-DAG: kernel _Z9fragmentsPi cannot run: the software GPU has no function "llvm.nvvm.wmma.m16n16k16.load.a
// CHECK: passed
#include "check.h"

__global__ void fine(int *out) { *out = 1; }
__global__ void stops(int *out) { asm volatile("fns.b32 %0, %1, 0, 1;" : "=r"(*out) : "r"(*out)); }

__global__ void tensors(int *out) {
  double sum;
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %0}, {%1}, {%1}, {%1, %1};" : "=d"(sum) : "d"(1.));
  *out = sum;
}
__global__ void textures(int *out) {
  int a, b, c, d;
  asm volatile("tex.1d.v4.s32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "l"(0ull), "r"(*out));
  *out = a + b + c + d;
}
__global__ void surfaces(int *out) {
  asm volatile("suld.b.1d.b32.trap {%0}, [%1, {%2}];" : "=r"(*out) : "l"(0ull), "r"(0));
}
__global__ void clusters(int *out) {
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];" : "=r"(*out) : "l"(out));
}
__global__ void fragments(int *out) {
  int fragment[8];
#ifdef __CUDA_ARCH__
  __hmma_m16n16k16_ld_a(fragment, out, 16, 0);
#endif
  *out = fragment[0];
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
