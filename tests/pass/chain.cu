// Two kernels that share an array are one task. Memory that is freed before more is allocated does not add
// up: the peak is the larger of the two sums.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void first(const int *in, int *mid) {}
__global__ void second(const int *mid, int *out) {}

// CHECK-LABEL: define {{.*}} @_Z5chainmmm
// CHECK-COUNT-1: call i64 @mgb_task_begin
// CHECK-NOT: call i64 @mgb_task_begin
// The larger sum, and sums that stop at the largest number.
// REPORT: task 1 static
// REPORT: op launch first(int const*, int*) [1,2]
// REPORT: op launch second(int const*, int*) [2,3]
// REPORT: peak: max(4 * i + 4 * m, 4 * m + 4 * o)
// REPORT-NOT: task
void chain(size_t i, size_t m, size_t o) {
  int *in, *mid, *out;
  cudaMalloc(&in, i * 4);
  cudaMalloc(&mid, m * 4);
  cudaMemset(in, 0, i * 4);
  first<<<1, 32>>>(in, mid);
  cudaFree(in);
  cudaMalloc(&out, o * 4);
  second<<<1, 32>>>(mid, out);
  cudaFree(mid);
  cudaFree(out);
}
