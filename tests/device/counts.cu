// A thread's operations are counted, and a loop's in one go where its length is known beforehand.
// RUN: %host-O2 | FileCheck %s
#include "cuda.h"

// CHECK: define internal void @softgpu.entry._Z3sumPij(
// CHECK: [[OPS:%[-A-Za-z0-9._]+]] = getelementptr{{.*}} i8, ptr %0, i64 80
// CHECK: load i64, ptr [[OPS]]
// CHECK: store i64 {{.*}}, ptr [[OPS]]
// CHECK-NEXT: ret void
__global__ void sum(int *out, unsigned n) {
  int sum = 0;
  for (unsigned i = 0; i < n; i++)
    sum += out[i];
  *out = sum;
}
