// Device pointers in memory that is not on the stack: memory that main allocates on the heap, and globals
// that only code inlined into main uses. Elsewhere, and in memory that other code can reach, they are
// unknown.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=CODE
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=CODE
// RUN: %report | FileCheck %s
#include "cuda.h"

extern "C" void *malloc(size_t size);
extern "C" void free(void *memory);

__global__ void work(int *x, int *y) {}

static int *here;
static struct {
  int count;
  int *first, *second;
} buffers;
int *shared;
static int *known_elsewhere;
int **where = &known_elsewhere;

static void set_up(size_t n) {
  cudaMalloc(&here, n);
  cudaMalloc(&buffers.first, 2 * n);
  cudaMalloc(&buffers.second, 4 * n);
}
static void step() {
  for (int i = 0; i < 10; i++)
    work<<<1, 1>>>(here, buffers.first);
  work<<<1, 1>>>(here, buffers.second);
}
static void tear_down() {
  cudaFree(here);
  cudaFree(buffers.first);
  cudaFree(buffers.second);
}

// An array of pointers on the heap, of which the number is known at run time only.
// CHECK: static in heap(unsigned long, unsigned long)
// CHECK: object 1 all: count * n
// CHECK: peak: count * n
// CODE-LABEL: define {{.*}}heap
// CODE: call i64 @mgb_task_begin
void heap(size_t n, size_t count) {
  int **all = (int **)malloc(count * sizeof(int *));
  for (size_t i = 0; i < count; i++)
    cudaMalloc(&all[i], n);
  for (size_t i = 0; i + 1 < count; i++)
    work<<<1, 1>>>(all[i], all[i + 1]);
  for (size_t i = 0; i < count; i++)
    cudaFree(all[i]);
  free(all);
}

// An object of a class.
struct Network {
  int *weights, *gradients;
  Network(size_t n) {
    cudaMalloc(&weights, n);
    cudaMalloc(&gradients, n);
  }
  void train() { work<<<1, 1>>>(weights, gradients); }
  ~Network() {
    cudaFree(weights);
    cudaFree(gradients);
  }
};
// CHECK: static in object(unsigned long)
// CHECK: peak: 2 * n
void object(size_t n) {
  Network *network = new Network(n);
  network->train();
  delete network;
}

// Once its address is passed on, the pointer may be anywhere.
void keep(int **);
// CHECK: lazy in given_away(unsigned long)
// CHECK: why address-escapes
void given_away(size_t n) {
  int **all = (int **)malloc(2 * sizeof(int *));
  cudaMalloc(&all[0], n);
  cudaMalloc(&all[1], n);
  keep(all);
  work<<<1, 1>>>(all[0], all[1]);
}

// Allocated in each iteration, it is not one block of memory.
// CHECK: lazy in anew(unsigned long)
// CHECK: why address-escapes
void anew(size_t n) {
  for (int i = 0; i < 2; i++) {
    int **all = new int *[2];
    cudaMalloc(&all[0], n);
    work<<<1, 1>>>(all[0], all[0]);
  }
}

// Other code can reach these.
// CHECK: lazy in open(unsigned long)
// CHECK: why address-escapes
// CHECK: why {{address-escapes|allocated-elsewhere}}
void open(size_t n) {
  cudaMalloc(&shared, n);
  cudaMalloc(&known_elsewhere, n);
  work<<<1, 1>>>(shared, known_elsewhere);
}

// CHECK: static in main
// CHECK: object 1 here: n
// CHECK: object 2 buffers: 2 * n
// CHECK: peak: n + 2 * n + 4 * n
// CODE-LABEL: define {{.*}}@main
// CODE: call i64 @mgb_task_begin
int main(int argc, char **argv) {
  size_t n = atoi(argv[1]);
  set_up(n);
  step();
  tear_down();
}
