// Global objects whose constructors allocate: their initialisation is called first in main, where the
// allocations join the tasks of main, also through functions that only call those which use the objects. The
// destructors free them after main. Initialisation that allocates nothing stays before main, and so does all of it
// where other files' code may use the objects before main (early_globals.cu).
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=CODE
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=CODE
// RUN: %report | FileCheck %s
// RUN: %ir-O1 -DHOST_ONLY %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=HOST
// RUN: %ir-O1 -DNO_MAIN %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=HOST
// RUN: %ir-O1 -DLAUNCHES %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=LAUNCHES
#include "cuda.h"

extern "C" void *malloc(size_t size);
extern "C" void free(void *memory);
extern "C" int rand();
__global__ void work(int *x, int *y) {}

class Layer {
public:
  Layer(int inputs, int outputs) : inputs(inputs), outputs(outputs) {
    host = (int *)malloc(outputs);
    for (int i = 0; i < outputs; i++)
      host[i] = rand();
#ifndef HOST_ONLY
    cudaMalloc(&output, outputs);
    cudaMalloc(&weight, inputs * outputs);
    cudaMemcpy(weight, host, outputs, cudaMemcpyHostToDevice);
#endif
  }
  ~Layer();
  int inputs, outputs;
  int *host, *output, *weight;
};

// Called by an alias.
Layer::~Layer() {
#ifdef LAUNCHES
  work<<<1, 1>>>(output, weight);
#endif
  free(host);
#ifndef HOST_ONLY
  cudaFree(output);
  cudaFree(weight);
#endif
}

static Layer first(16, 64), second(64, 10);

static void forward(int n) {
  for (int i = 0; i < n; i++) {
    work<<<1, 64>>>(first.output, first.weight);
    work<<<1, 10>>>(second.output, first.output);
  }
}
static void learn(int n) {
  for (int i = 0; i < n; i++) {
    forward(n);
    work<<<1, 10>>>(second.weight, second.output);
  }
}
static void test() {
  for (int i = 0; i < 10; i++)
    forward(1);
}

// HOST-LABEL: define internal void @_GLOBAL__sub_I_
// HOST-NEXT: entry:
// HOST-NEXT: {{call|%}}
// CODE-LABEL: define {{.*}}i32 @main
// CODE: call i64 @mgb_task_begin
// CODE-LABEL: define internal void @_GLOBAL__sub_I_
// CODE-NEXT: entry:
// CODE-NEXT: ret void

// CHECK: static in main
// CHECK: object 1 first: 64
// CHECK: object 2 first: 1024
// CHECK: object 3 second: 10
// CHECK: object 4 second: 640
// CHECK: peak: 1738
// CHECK-NOT: lazy in main

// The destructor launches after main: the task would have ended.
// LAUNCHES: lazy in main
// LAUNCHES: why address-escapes: the address of a variable that holds device pointers goes to __cxa_atexit
#ifndef NO_MAIN
int main(int n, char **) {
  learn(n);
  test();
}
#else
void run(int n) {
  learn(n);
  test();
}
#endif
