// A kernel without objects, launched over and over: the task begins once for all the launches of a loop,
// unless the loop does something else on a GPU, or says only inside how large the launch is.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void bare(int n) {}
__global__ void work(int *x) {}
int ask();

// CHECK-LABEL: define {{.*}} @_Z8repeatedii
// CHECK: call i64 @mgb_task_begin
// CHECK: for.body:
// CHECK-NOT: @mgb_task_begin
// CHECK-NOT: @mgb_task_end
// CHECK: call void @mgb_task_use
// CHECK-NOT: @mgb_task_end
// CHECK: br label
// CHECK: call void @mgb_task_end
// CHECK: ret void
// REPORT: task 1 static in repeated(int, int)
void repeated(int times, int blocks) {
  for (int i = 0; i < times; i++)
    bare<<<blocks, 32>>>(i);
}

// CHECK-LABEL: define {{.*}} @_Z7growingi
// CHECK: for.body:
// CHECK: call i64 @mgb_task_begin
// CHECK: call void @mgb_task_end
// CHECK: ret void
// REPORT: task 2 static in growing(int)
void growing(int times) {
  for (int i = 1; i < times; i++)
    bare<<<ask(), 32>>>(i);
}

// CHECK-LABEL: define {{.*}} @_Z7betweeni
// CHECK: for.body:
// CHECK: call i64 @mgb_task_begin
// CHECK: call i64 @mgb_task_begin
// CHECK: ret void
// REPORT: task 3 static in between(int)
// REPORT: task 4 static in between(int)
void between(int times) {
  for (int i = 0; i < times; i++) {
    int *x;
    cudaMalloc(&x, 64);
    work<<<1, 1>>>(x);
    cudaFree(x);
    bare<<<1, 32>>>(i);
  }
}
