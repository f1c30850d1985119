// Objects that come from elsewhere: lazy, and the report says from where.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}
static int *global;
struct State {
  int *x;
};
int *make();

// CHECK-NOT: @mgb_task_

// REPORT: task 1 lazy in argument(int*)
// REPORT: op launch work(int*) [] :[[@LINE+2]]
// REPORT: why allocated-elsewhere: the pointer is the argument given (:[[@LINE+1]])
void argument(int *given) { work<<<1, 1>>>(given); }

// REPORT: task 2 lazy in from_global()
// REPORT: why allocated-elsewhere: the pointer is read from the global global (:[[@LINE+1]])
void from_global() { work<<<1, 1>>>(global); }

// REPORT: task 3 lazy in to_global(int)
// REPORT-NEXT: object 1 : n
// REPORT: why address-escapes: cudaMalloc writes the address to the global global (:[[@LINE+1]])
void to_global(int n) { cudaMalloc(&global, n); }

// REPORT: task 4 lazy in structure(State*)
// REPORT: why allocated-elsewhere: the pointer is read from the argument state
void structure(State *state) { work<<<1, 1>>>(state->x); }

// REPORT: task 5 lazy in result()
// REPORT: why allocated-elsewhere: the pointer is the result of make()
void result() { work<<<1, 1>>>(make()); }

// One of several, some of them unknown.
// REPORT: task 6 lazy in either(bool, int*)
// REPORT: why allocated-elsewhere: the pointer is the argument given
void either(bool own, int *given) {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(own ? x : given);
  cudaFree(x);
}
