// Addresses that go where the pass does not follow: lazy, and the report says where to.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}
void take(int *);
void take_address(int **);
static int *kept;

// CHECK-NOT: @mgb_task_

// REPORT: task 1 lazy in to_call()
// REPORT: why address-escapes: the pointer goes to take(int*) (:[[@LINE+5]])
void to_call() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  take(x);
}

// REPORT: task 2 lazy in address_to_call()
// REPORT: why address-escapes: the address of a variable that holds device pointers goes to take_address(int**) (:[[@LINE+4]])
void address_to_call() {
  int *x;
  cudaMalloc(&x, 64);
  take_address(&x);
  work<<<1, 1>>>(x);
}

// REPORT: task 3 lazy in returned()
// REPORT: why address-escapes: the pointer is returned
int *returned() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  return x;
}

// REPORT: task 4 lazy in stored()
// REPORT: why address-escapes: the pointer is stored in the global kept
void stored() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  kept = x;
}

// REPORT: task 5 lazy in integer()
// REPORT: why address-escapes: the pointer is converted to an integer
size_t integer() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  return (size_t)x;
}

// REPORT: task 6 lazy in by_pointer(void (*)(void*))
// REPORT: why address-escapes: the pointer goes to an unknown function
void by_pointer(void (*f)(void *)) {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  f(x);
}
