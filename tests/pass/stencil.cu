// A ping-pong loop: the two variables may hold either object, which is all one task. The allocations
// are outside the loop, so the begin is too; the end comes after it.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void step(const unsigned *from, unsigned *to, size_t n) {}

// CHECK-LABEL: define {{.*}} @_Z7stencilmi
// CHECK: call i64 @mgb_task_begin
// CHECK: br label %for.cond
// CHECK: for.cond:
// CHECK: for.body:
// CHECK-NOT: mgb_task_begin
// CHECK-NOT: mgb_task_end
// CHECK: for.end:
// CHECK-COUNT-2: @mgb_cudaFree
// CHECK: call void @mgb_task_end

// REPORT: task 1 static
// REPORT: op launch step(unsigned int const*, unsigned int*, unsigned long) [1,2]
// REPORT: peak: 2 * (4 * n)
// REPORT: grid: (n + 255) / 256
// REPORT: begin :[[@LINE+5]]
// REPORT: end :[[@LINE+11]]
void stencil(size_t n, int steps) {
  unsigned *from, *to;
  cudaMalloc(&from, n * 4); cudaMalloc(&to, n * 4);
  for (int i = 0; i < steps; i++) {
    step<<<(n + 255) / 256, 256>>>(from, to, n);
    unsigned *written = to;
    to = from;
    from = written;
  }
  cudaFree(from);
  cudaFree(to);
}
