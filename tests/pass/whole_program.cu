// Two files of a whole program: each compile keeps what the link needs, and the pass over both together finds
// one task, allocated in one file and launched in the other, with kernels and variables of the same name.
// RUN: %ir-O1 -DKERNELS %s | %opt -passes=mgb-leave -o %t.kernels.ll
// RUN: FileCheck %s --input-file=%t.kernels.ll --check-prefix=LEFT
// RUN: %ir-O1 %s | %opt -passes=mgb-leave -o %t.main.ll
// RUN: llvm-link -S %t.main.ll %t.kernels.ll -o %t.both.ll
// RUN: %opt -passes='internalize,mgb-link,verify' -internalize-public-api-list=main %t.both.ll -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// A compile's half over the same sees one file with nothing in it that it could place a probe for.
// RUN: %ir-O1 -DKERNELS %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=APART
#include "cuda.h"

void run(int *x, int n);

// LEFT-NOT: mgb_cuda
// LEFT-LABEL: define {{.*}}_Z3runPii
// LEFT: call {{.*}}@__cudaPushCallConfiguration
// LEFT: call {{.*}}__device_stub__work
// LEFT-NOT: mgb.processed

// APART: task 1 lazy in run(int*, int)
// APART: why allocated-elsewhere

#ifdef KERNELS
static __global__ void work(int *x) {}
void run(int *x, int n) {
  work<<<n, 32>>>(x);
  work<<<n, 64>>>(x);
}
#else
// REPORT: module {{.*}}whole_program.cu
// REPORT-NEXT: task 1 static in main
// REPORT: op launch work(int*) [1] :[[@LINE-6]]
// REPORT: op launch work(int*) [1] :[[@LINE-6]]
// REPORT: peak: 4 * n
// REPORT-NOT: module
// CHECK-NOT: define {{.*}}_Z3runPii
// CHECK: define {{.*}}i32 @main(i32 noundef %n
// CHECK: call i64 @mgb_task_begin
// CHECK: !mgb.processed
int main(int n, char **) {
  int *x;
  cudaMalloc(&x, n * 4);
  run(x, n);
  cudaFree(x);
  return 0;
}
#endif
