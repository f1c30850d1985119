// A module that was processed is left alone, and the same module always gives the same result.
// RUN: %ir-O1 %s -o %t.ir.ll
// RUN: %mgb %t.ir.ll -o %t.first.ll
// RUN: %mgb %t.ir.ll -o %t.second.ll
// RUN: cmp %t.first.ll %t.second.ll
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %mgb %t.ll -o %t.again.ll
// RUN: %opt -passes=mgb,mgb %t.ll -o %t.thrice.ll
// RUN: diff -I "^; ModuleID" %t.ll %t.again.ll
// RUN: FileCheck %s --input-file=%t.again.ll
#include "cuda.h"
__global__ void work(int *x) {}
// CHECK-COUNT-1: call i64 @mgb_task_begin
// CHECK-NOT: call i64 @mgb_task_begin
// CHECK-NOT: mgb_mgb
// CHECK: !mgb.processed
void once() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
