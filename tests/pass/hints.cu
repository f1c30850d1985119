// MGB_NEVER_MOVE anchors the tasks of the function it stands in, after inlining, and changes nothing else;
// MGB_NEVER_SHARE has static ones ask for a GPU for themselves.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: llc %t.ll -o - | FileCheck %s --check-prefix=CODE
#include "../../probe/include/mgb.h"
#include "cuda.h"

__global__ void work(int *x) {}

// CODE-NOT: {{never-(move|share)|mgb.(need|deadline)"}}
// CODE-LABEL: anchored
// CODE-NOT: llvm.annotation

// CHECK-LABEL: define {{.*}}anchored
// CHECK: call i64 @mgb_task_begin
// REPORT: task 1 static in anchored(int)
// REPORT: peak: 4 * n
// REPORT: anchored: the source says MGB_NEVER_MOVE (:[[@LINE+2]])
void anchored(int n) {
  MGB_NEVER_MOVE();
  int *x;
  cudaMalloc(&x, n * sizeof(int));
  work<<<1, 1>>>(x);
  cudaFree(x);
}

static void run(int *x) {
  MGB_NEVER_MOVE();
  work<<<1, 1>>>(x);
}

// REPORT: task 2 static in by_a_helper()
// REPORT: anchored: the source says MGB_NEVER_MOVE (:[[@LINE-5]])
void by_a_helper() {
  int *x;
  cudaMalloc(&x, 64);
  run(x);
  cudaFree(x);
}

// REPORT: task 3 static in without()
// REPORT-NOT: anchored
// REPORT: end
void without() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// Annotations with other texts are ignored.
// REPORT: task 4 static in annotated()
// REPORT-NOT: anchored
void annotated() {
  (void)__builtin_annotation(0, "mgb.never-moved");
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// REPORT: task 5 lazy in lazy(int*)
// REPORT: anchored: the source says MGB_NEVER_MOVE
void lazy(int *x) {
  MGB_NEVER_MOVE();
  work<<<1, 1>>>(x);
}

// CHECK-LABEL: define {{.*}}by_itself
// CHECK: store i32 8, ptr %mgb.need.flags
// REPORT: task 6 static in by_itself()
// REPORT-NOT: anchored
// REPORT: alone: the source says MGB_NEVER_SHARE (:[[@LINE+2]])
void by_itself() {
  MGB_NEVER_SHARE();
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// Both hints of one function. A flag beside another: device_variables.cu.
// CHECK-LABEL: define {{.*}}both
// CHECK: store i32 8, ptr %mgb.need.flags
// REPORT: task 7 static in both()
// REPORT: anchored: the source says MGB_NEVER_MOVE
// REPORT: alone: the source says MGB_NEVER_SHARE
void both() {
  MGB_NEVER_MOVE();
  MGB_NEVER_SHARE();
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// The report has the hint; a lazy task has no probe that could pass it on.
// REPORT: task 8 lazy in lazily(int*)
// REPORT: alone: the source says MGB_NEVER_SHARE
void lazily(int *x) {
  MGB_NEVER_SHARE();
  work<<<1, 1>>>(x);
}

// MGB_NEED says what the pass cannot tell; where it can, nothing changes.
// REPORT: task 9 static in said(unsigned long, unsigned long*)
// REPORT: peak: 3 * n
void said(size_t n, size_t *sizes) {
  MGB_NEED(3 * n);
  int *x, *y;
  cudaMalloc(&x, n);
  work<<<1, 1>>>(x);
  cudaMemcpy(sizes, x, sizeof(size_t), cudaMemcpyDeviceToHost);
  cudaMalloc(&y, *sizes);
  cudaMemcpy(y, x, *sizes, cudaMemcpyDeviceToDevice);
  cudaFree(x);
  cudaFree(y);
}

// REPORT: task 10 static in known(unsigned long)
// REPORT: peak: n
void known(size_t n) {
  MGB_NEED(7);
  int *x;
  cudaMalloc(&x, n);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// A hint after the first op has no effect.
// REPORT: task 11 lazy in late(unsigned long*)
// REPORT: why need-undefined
void late(size_t *sizes) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemcpy(sizes, x, sizeof(size_t), cudaMemcpyDeviceToHost);
  MGB_NEED(*sizes + 64);
  cudaMalloc(&y, *sizes);
  cudaMemcpy(y, x, *sizes, cudaMemcpyDeviceToDevice);
}

// A deadline of each task that a loop begins, in milliseconds; nanoseconds for the scheduler.
// CHECK-LABEL: define {{.*}}in_time
// CHECK: %[[MS:.*]] = select i1 %{{.*}}, i64 %ms, i64 4294967295
// CHECK: %[[NS:.*]] = mul i64 %[[MS]], 1000000
// CHECK: store i64 %[[NS]], ptr %mgb.need.deadline
// REPORT: task 12 static in in_time(int, unsigned long)
// REPORT: deadline: ms
void in_time(int requests, size_t ms) {
  for (int i = 0; i < requests; ++i) {
    MGB_DEADLINE(ms);
    int *x;
    cudaMalloc(&x, 64);
    work<<<1, 1>>>(x);
    cudaFree(x);
  }
}

// A constant one.
// CHECK-LABEL: define {{.*}}at_once
// CHECK: store i64 5000000, ptr %mgb.need.deadline
// REPORT: task 13 static in at_once()
// REPORT: deadline: 5
void at_once() {
  MGB_DEADLINE(5);
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// What is known only after the begin is none, and changes nothing else.
// CHECK-LABEL: define {{.*}}too_late
// CHECK: store i64 0, ptr %mgb.need.deadline
// REPORT: task 14 static in too_late(unsigned long*)
// REPORT-NOT: deadline
// REPORT: end
void too_late(size_t *ms) {
  int *x;
  cudaMalloc(&x, 64);
  cudaMemcpy(ms, x, sizeof(size_t), cudaMemcpyDeviceToHost);
  MGB_DEADLINE(*ms);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
