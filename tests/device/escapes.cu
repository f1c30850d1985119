// A variable whose address goes where it is not followed may be used by every kernel; and a kernel that calls
// what is not known may use every variable, and keep every address that it is given.
// RUN: %host-O2 -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

extern "C" {
int cudaMalloc(void **, size_t);
int cudaFree(void *);
}

__device__ int kept;
__device__ int *keeper;
__device__ int counter;

__global__ void keeps(int *x) {
  keeper = &kept;
  counter++;
}
__global__ void plain(int *x) { *x = 1; }
typedef void (*Function)(int *);
__device__ void count(int *x) { *x = counter++; }
__global__ void calls(int *x, int which) {
  Function functions[2] = {count, count};
  functions[which](x);
}

// CHECK: task 1 static in task_plain()
// CHECK: object 2 kept: 4 variable
// CHECK-NOT: counter
// CHECK: task 2 lazy in task_calls(int)
// CHECK-DAG: object {{.}} kept: 4 variable
// CHECK-DAG: object {{.}} counter: 4 variable
// CHECK: why address-escapes: calls(int*, int) may keep the address in its parameter 1 (x): it passes it to a function that it calls through a pointer
void task_plain() {
  int *x;
  cudaMalloc((void **)&x, 64);
  plain<<<1, 1>>>(x);
  cudaFree(x);
}
void task_calls(int which) {
  int *x;
  cudaMalloc((void **)&x, 64);
  calls<<<1, 1>>>(x, which);
  cudaFree(x);
}
