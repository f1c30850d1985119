// The methods of a class are in another file than their caller, which calls constructor and destructor by
// aliases: they are inlined nevertheless, and what they allocate and free joins the task of the launches of
// the caller.
// RUN: %ir-O1 -DMETHODS %s | %opt -passes=mgb-leave -o %t.methods.ll
// RUN: FileCheck %s --input-file=%t.methods.ll --check-prefix=ALIAS
// RUN: %ir-O1 %s | %opt -passes=mgb-leave -o %t.main.ll
// RUN: llvm-link -S %t.main.ll %t.methods.ll -o %t.both.ll
// RUN: %opt -passes='internalize,mgb-link,verify' -internalize-public-api-list=main %t.both.ll -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

class Buffer {
public:
  explicit Buffer(int n);
  ~Buffer();
  int *x;
};

// ALIAS: @_ZN6BufferC1Ei = {{.*}}alias
#ifdef METHODS
Buffer::Buffer(int n) { cudaMalloc(&x, n); }
Buffer::~Buffer() { cudaFree(x); }
#else
__global__ void work(int *x) {}

// CHECK-NOT: @_ZN6Buffer
// CHECK-LABEL: define {{.*}}@main(
// CHECK: call i64 @mgb_task_begin
// CHECK-NOT: @_ZN6Buffer
// REPORT: task 1 static in main
// REPORT: op cudaMalloc {{.*}}[1]
// REPORT: op launch work(int*) [1]
// REPORT: op cudaFree {{.*}}[1]
// REPORT-NOT: task
int main(int n, char **) {
  Buffer buffer(n);
  work<<<n, 32>>>(buffer.x);
  return 0;
}
#endif
