// A kernel that may keep an address which it is given makes its task lazy: a launch of another task may then find
// the address in memory. Each way to keep one, and what is none.
// RUN: %host-O0 -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %host-O2 -o %t.ll
// RUN: %report | FileCheck %s
// Without the proof nobody keeps anything.
// RUN: %host-ir %s > %t.host.ll
// RUN: env MGB_ASSUME=other,escape %opt -passes=mgb %t.host.ll -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=ASSUMED
// ASSUMED-NOT: address-escapes
#include "cuda.h"

extern "C" {
int cudaMalloc(void **, size_t);
int cudaFree(void *);
__device__ int vprintf(const char *, void *);
__device__ void *malloc(size_t);
}

typedef unsigned long long u64;
struct Node {
  Node *next;
  float *data;
  long count;
};
struct View {
  float *data;
  int count;
  double factor;
};

#define TASK(name, ...)                                                                                                \
  void task_##name(int n) {                                                                                            \
    float *x, *y;                                                                                                      \
    cudaMalloc((void **)&x, 64);                                                                                       \
    cudaMalloc((void **)&y, 64);                                                                                       \
    name<<<1, 1>>>(__VA_ARGS__);                                                                                       \
    cudaFree(x);                                                                                                       \
    cudaFree(y);                                                                                                       \
  }

__device__ float *kept;
__device__ u64 number;
__device__ Node nodes[4];

// Into memory, a device variable, itself; as a number; from a structure.
// CHECK: lazy in task_into_memory(int)
// CHECK: why address-escapes: into_memory(float*, float**) may keep the address in its parameter 1 (x): it stores it in memory
// CHECK-NOT: parameter 2
__global__ void into_memory(float *x, float **y) { *y = x; }
TASK(into_memory, x, (float **)y)
// CHECK: lazy in task_into_variable(int)
// CHECK: parameter 2 (x): it stores it in memory
__global__ void into_variable(int n, float *x) { kept = x + n; }
TASK(into_variable, n, x)
// CHECK: lazy in task_into_itself(int)
__global__ void into_itself(Node *x) { x->next = x + 1; }
TASK(into_itself, (Node *)x)
// CHECK: lazy in task_as_number(int)
__global__ void as_number(float *x) { number = (u64)x ^ 0x5555; }
TASK(as_number, x)
// CHECK: lazy in task_in_halves(int)
__global__ void in_halves(float *x, unsigned *y) {
  y[0] = (unsigned)(u64)x;
  y[1] = (unsigned)((u64)x >> 32);
}
TASK(in_halves, x, (unsigned *)y)
// CHECK: lazy in task_bits_of_a_part(int)
__global__ void bits_of_a_part(float *x, unsigned *y) { *y = ((u64)x >> 20) & 255; }
TASK(bits_of_a_part, x, (unsigned *)y)
// CHECK: lazy in task_from_structure(int)
// CHECK: parameter 1 (view): it stores it in memory
__global__ void from_structure(View view, float **y) { *y = view.data; }
TASK(from_structure, View{x, n, 2}, (float **)y)
// CHECK: lazy in task_whole_structure(int)
__global__ void whole_structure(View view, View *y) { *y = view; }
TASK(whole_structure, View{x, n, 2}, (View *)y)
// CHECK: lazy in task_difference(int)
__global__ void difference(float *x, float *y, long *z) { *z = (char *)x - (char *)y; }
TASK(difference, x, nullptr, (long *)y)

// By atomics.
// CHECK: lazy in task_exchanged(int)
// CHECK: parameter 1 (x): it puts it into memory by an atomic operation
__global__ void exchanged(float *x, u64 *y) { __atomic_exchange_n(y, (u64)x, __ATOMIC_RELAXED); }
TASK(exchanged, x, (u64 *)y)
// CHECK: lazy in task_added(int)
__global__ void added(float *x, u64 *y) { __atomic_fetch_add(y, (u64)x, __ATOMIC_RELAXED); }
TASK(added, x, (u64 *)y)
// CHECK: lazy in task_swapped(int)
__global__ void swapped(float *x, u64 *y) {
  u64 old = 0;
  __atomic_compare_exchange_n(y, &old, (u64)x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
TASK(swapped, x, (u64 *)y)

// Through functions, what they return, objects, and what is not known.
__device__ __attribute__((noinline)) void put(void **at, void *what) { *at = what; }
__device__ __attribute__((noinline)) float *later(float *of, int by) { return of + by; }
__device__ void elsewhere(float *);
struct Holder {
  float *mine;
  __device__ Holder(float *x) : mine(x) {}
  __device__ __attribute__((noinline)) Holder moved(int by) const { return Holder(mine + by); }
  __device__ __attribute__((noinline)) void leave() const { kept = mine; }
};
// CHECK: lazy in task_by_function(int)
__global__ void by_function(float *x, float **y) { put((void **)y, later(x, 1)); }
TASK(by_function, x, (float **)y)
// CHECK: lazy in task_by_object(int)
__global__ void by_object(float *x) { Holder(x).moved(1).leave(); }
TASK(by_object, x)
// CHECK: lazy in task_by_unknown(int)
// CHECK: parameter 1 (x): it passes it to elsewhere(float*), whose code is not known
__global__ void by_unknown(float *x) { elsewhere(x); }
TASK(by_unknown, x)
// CHECK: lazy in task_by_shared(int)
__global__ void by_shared(float *x, float **y) {
  __shared__ float *all[32];
  all[threadIdx_x] = x;
  *y = all[31 - threadIdx_x];
}
TASK(by_shared, x, (float **)y)
// CHECK: lazy in task_by_local(int)
__global__ void by_local(float *x, float **y, int n) {
  float *all[4] = {x, x + 1, x + 2, x + 3};
  *y = all[n & 3];
}
TASK(by_local, x, (float **)y, n)
// CHECK: lazy in task_local_escapes(int)
__global__ void local_escapes(float *x, Node **y) {
  Node own{nullptr, x, 1};
  *y = &own;
}
TASK(local_escapes, x, (Node **)y)
// CHECK: lazy in task_into_heap(int)
__global__ void into_heap(float *x) { *(float **)malloc(8) = x; }
TASK(into_heap, x)

// By assembly.
// CHECK: lazy in task_by_assembly(int)
// CHECK: parameter 1 (x): it stores it in memory
__global__ void by_assembly(float *x, float **y) { asm volatile("st.global.u64 [%0], %1;" ::"l"(y), "l"(x)); }
TASK(by_assembly, x, (float **)y)
// CHECK: lazy in task_moved_by_assembly(int)
__global__ void moved_by_assembly(float *x, u64 *y) {
  u64 copy;
  asm("{ .reg .b64 t; mov.b64 t, %1; add.s64 %0, t, 8; }" : "=l"(copy) : "l"(x));
  *y = copy;
}
TASK(moved_by_assembly, x, (u64 *)y)
// CHECK: lazy in task_assembly_not_known(int)
// CHECK: parameter 1 (x): it uses it in assembly that is not followed
__global__ void assembly_not_known(float *x) { asm volatile("cp.reduce.async.bulk.foo [%0], 1;" ::"l"(x)); }
TASK(assembly_not_known, x)

// What keeps nothing: data, arithmetic, loops, structures, shared memory, functions, tests.
// CHECK: static in task_data(int)
__device__ __attribute__((noinline)) void scale(float *to, const float *from, View by) { *to = *from * (float)by.factor + by.count; }
__global__ void data(const float *__restrict__ x, float *y, View view) {
  __shared__ float tile[64];
  for (const float *p = x, *end = x + view.count; p != end; ++p)
    tile[threadIdx_x] += *p;
  View copy = view;
  for (int i = 0; i < copy.count; ++i)
    scale(y + i, &tile[i], copy);
  View *by_pointer = &copy;
  y[by_pointer->count] = (float)by_pointer->factor;
}
TASK(data, x, y, View{x, n, 2})
// CHECK: static in task_objects(int)
__global__ void objects(float *x, int *y) {
  Holder one(x), two = one.moved(2);
  View view{x, 3, 1};
  View pair[2] = {view, View{two.mine, 5, 1}};
  *y = pair[1].count + (int)*two.mine + (two.mine == x);
}
TASK(objects, x, (int *)y)
// CHECK: static in task_tests(int)
__global__ void tests(float *x, int *y) {
  float *end = x + 12;
  bool aligned = ((u64)x & 15) == 0;
  y[0] = aligned ? (int)((u64)x % 16) : (int)(end - x);
  y[1] = x < end;
  if (x == nullptr) y[2] = 1;
}
TASK(tests, x, (int *)y)
// CHECK: static in task_follows(int)
__global__ void follows(Node *x, long *y) {
  long sum = 0;
  for (Node *at = x; at; at = at->next) sum += at->count + (long)*at->data;
  *y = sum;
  x->next->data = x->data;
}
TASK(follows, (Node *)x, (long *)y)
// CHECK: static in task_prints(int)
__global__ void prints(float *x) {
  void *arguments[1] = {x};
  vprintf("%p", arguments);
}
TASK(prints, x)
// CHECK: static in task_reads_by_assembly(int)
__global__ void reads_by_assembly(float *x, float *y) {
  float v;
  asm("ld.global.nc.f32 %0, [%1+4];" : "=f"(v) : "l"(x));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(x));
  asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(y), "f"(v));
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(y), "f"(v));
}
TASK(reads_by_assembly, x, y)
// CHECK: static in task_table(int)
struct Table {
  float *of[4];
  int counts[4];
  float factor;
};
__global__ void table(Table all, int n) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < all.counts[i]; ++j) all.of[i][j] *= all.factor;
}
TASK(table, Table{{x, y, x, y}, {1, 2, 3, 4}, 2}, n)
// CHECK: static in task_empty(int)
__global__ void empty() {}
TASK(empty)
