// A program of one file: functions and globals that other files could use are used by none, since main calls
// nothing of theirs. With one call of another file's function, or one variable of another file, they may be.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 -DFUNCTION %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=OTHERS
// RUN: %ir-O1 -DVARIABLE %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=OTHERS
// RUN: %ir-O1 -DPOINTER %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=OTHERS
#include "cuda.h"

__global__ void work(int *x, int *y) {}
void of_another_file();
extern void (*pointer_of_another_file)();

int *from[4];
static int *to;

// Called twice, and kept for other files.
void step(int n) {
  for (int i = 0; i < n; i++)
    work<<<1, 1>>>(from[i % 4], to);
}
#ifdef POINTER
// Something may call it by its address.
void (*pointer)(int) = step;
#endif

// CHECK: lazy in step(int)
// CHECK: for others
// CHECK: static in main
// CHECK: object 1 from: 4 * n
// CHECK: object 2 to: n
// CHECK-NOT: lazy
// OTHERS: lazy in main
// OTHERS-NOT: static in
int main(int argc, char **argv) {
  size_t n = atoi(argv[1]);
  for (int i = 0; i < 4; i++)
    cudaMalloc(&from[i], n);
  cudaMalloc(&to, n);
#ifdef FUNCTION
  of_another_file();
#endif
#ifdef VARIABLE
  pointer_of_another_file();
#endif
#ifdef POINTER
  pointer(1);
#endif
  step(1);
  step(argc);
  printf("%d\n", argc);
}
