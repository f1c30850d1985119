// Small wrappers are inlined, so that tasks are seen through them; nothing is left of them.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
#include "cuda.h"

__global__ void work(int *x) {}

template <class T> struct Buffer {
  T *data;
  Buffer(size_t n) {
    if (cudaMalloc(&data, n * sizeof(T)) != cudaSuccess) {
      printf("no room\n");
      exit(1);
    }
  }
  ~Buffer() { cudaFree(data); }
};
static void launch(int *x, int n) { work<<<n, 32>>>(x); }

// CHECK-NOT: define {{.*}}Buffer
// CHECK-NOT: define {{.*}}_ZL6launch
// REPORT: task 1 static in wrapped(int)
// REPORT: op cudaMalloc [1] :14
// REPORT: op launch work(int*) [1] :21
// REPORT: op cudaFree [1] :19
// REPORT: peak: 4 * n
// REPORT: grid: n
void wrapped(int n) {
  Buffer<int> buffer(n);
  launch(buffer.data, n);
}
