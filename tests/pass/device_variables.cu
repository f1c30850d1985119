// Kernels of a file with device variables may communicate through them, although they share no argument:
// their tasks are static, and their needs say that they run where the variables have their values. Copies to
// and from variables are bound at run time, to the same GPU.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "../../probe/include/mgb.h"
#include "cuda.h"

__constant__ float factor;
__global__ void scale(float *x) { *x *= factor; }
__global__ void elsewhere(float *x);

// MGB_NEED_VARIABLES
// CHECK-LABEL: define {{.*}}scaled
// CHECK: %mgb.need.flags = getelementptr
// CHECK-NEXT: store i32 4, ptr %mgb.need.flags
// CHECK: call i64 @mgb_task_begin
// CHECK: call {{.*}}@mgb_cudaMemcpyToSymbol

// REPORT: task 1 static in scaled(float)
// REPORT: op launch scale(float*) [1]
// REPORT: anchored: scale(float*) may use the device variables of this file (:[[@LINE+7]])
// REPORT: task 2 lazy in scaled(float)
// REPORT: op cudaMemcpyToSymbol
// REPORT: why anchored: cudaMemcpyToSymbol accesses a device variable
void scaled(float by) {
  float *x;
  cudaMalloc(&x, 64);
  scale<<<1, 1>>>(x);
  cudaMemcpyToSymbol(&factor, &by, 4);
  cudaFree(x);
}

// CHECK-LABEL: define {{.*}}other_file
// CHECK: store i32 4, ptr %mgb.need.flags
// REPORT: task 3 static in other_file()
// REPORT: anchored: elsewhere(float*) is compiled in another file, where it may use device variables
void other_file() {
  float *x;
  cudaMalloc(&x, 64);
  elsewhere<<<1, 1>>>(x);
  cudaFree(x);
}

// A function without a launch touches no variable.
// CHECK-LABEL: define {{.*}}no_launch
// CHECK: store i32 16, ptr %mgb.need.flags
// REPORT: task 4 static in no_launch()
// REPORT-NOT: anchored
void no_launch() {
  float *x;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  cudaFree(x);
}

// Two flags in one need: MGB_NEED_ALONE.
// CHECK-LABEL: define {{.*}}by_itself
// CHECK: store i32 12, ptr %mgb.need.flags
// REPORT: task 5 static in by_itself()
// REPORT: anchored: scale(float*) may use the device variables of this file
// REPORT: alone: the source says MGB_NEVER_SHARE
void by_itself() {
  MGB_NEVER_SHARE();
  float *x;
  cudaMalloc(&x, 64);
  scale<<<1, 1>>>(x);
  cudaFree(x);
}
