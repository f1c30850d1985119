// Functions that return memory which they allocate, and those that launch on memory of their caller and
// allocate more, are inlined where they are called, whatever loops they have; one that uses only objects of
// its own is analysed by itself.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x, int *y) {}
void use(int i);

struct State {
  int *x;
  int *y;
  int n;
};

// By a structure that is returned.
static State made(int n) {
  State state;
  for (int i = 0; i < n; i++)
    use(i);
  cudaMalloc(&state.x, n);
  cudaMalloc(&state.y, n);
  state.n = n;
  return state;
}

// Through a pointer.
static void filled(int **x, int n) {
  for (int i = 0; i < n; i++)
    use(i);
  cudaMalloc(x, n);
}

// By a pointer that is returned.
static int *given(int n) {
  int *x;
  for (int i = 0; i < n; i++)
    use(i);
  cudaMalloc(&x, n);
  return x;
}

static void joined(int *x, int n) {
  int *more;
  cudaMalloc(&more, n);
  for (int i = 0; i < n; i++)
    work<<<n, 32>>>(x, more);
  cudaFree(more);
}

static void alone(const int *from, int n) {
  int *x;
  cudaMalloc(&x, n);
  cudaMemcpy(x, from, n, cudaMemcpyHostToDevice);
  for (int i = 0; i < n; i++)
    work<<<n, 32>>>(x, x);
  cudaFree(x);
}

// REPORT: task {{[0-9]+}} static in returned(int)
// REPORT: op launch {{.*}}[1,2]
// REPORT-NOT: lazy
void returned(int n) {
  State state = made(n);
  work<<<n, 32>>>(state.x, state.y);
  cudaFree(state.x);
  cudaFree(state.y);
}

// REPORT: task {{[0-9]+}} static in through(int, int const*)
// REPORT: op cudaMalloc {{.*}}[1]
// REPORT: op cudaMalloc {{.*}}[2]
// REPORT: op cudaMalloc {{.*}}[3]
// REPORT: op launch {{.*}}[2,3]
// REPORT-NOT: lazy
void through(int n, const int *from) {
  int *x, *y = given(n);
  filled(&x, n);
  alone(from, n);
  joined(x, n);
  work<<<n, 32>>>(x, y);
  cudaFree(x);
  cudaFree(y);
}

// REPORT: task {{[0-9]+}} static in alone(int const*, int)
// REPORT-NOT: lazy
