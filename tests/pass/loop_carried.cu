// A task begins in each iteration of a loop only if no object of one iteration is used in a later one. Else it
// begins before the loop, if what the loop allocates can be counted there, or is lazy.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=CODE
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=CODE
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | env MGB_ASSUME=escape,loops %mgb -o %t.ll
// RUN: %report | FileCheck %s --check-prefix=ASSUMED
#include "cuda.h"

__global__ void work(int *x, int *y) {}
bool more();
int next();

// Freed in the same iteration.
// CHECK: static in freed(int)
// CODE-LABEL: define {{.*}} @_Z5freedi
// CODE: @_Z4morev()
// CODE: call i64 @mgb_task_begin
void freed(int n) {
  while (more()) {
    int *x, *y;
    cudaMalloc(&x, n);
    cudaMalloc(&y, n);
    work<<<1, 1>>>(x, y);
    cudaFree(x);
    cudaFree(y);
  }
}

// Lost in the same iteration, or freed at the start of the next one: no launch uses it there.
// CHECK: static in lost(int)
void lost(int n) {
  while (more()) {
    int *x;
    cudaMalloc(&x, n);
    work<<<1, 1>>>(x, x);
  }
}
// CHECK: static in freed_later(int)
void freed_later(int n) {
  int *x = nullptr;
  while (more()) {
    if (x)
      cudaFree(x);
    cudaMalloc(&x, n);
    work<<<1, 1>>>(x, x);
  }
  cudaFree(x);
}

// A workspace that grows on demand is used by iterations that do not make it.
// CHECK: lazy in workspace()
// CHECK: why allocated-in-loop
// ASSUMED: static in workspace()
void workspace() {
  int *x = nullptr, capacity = 0;
  while (more()) {
    int n = next();
    if (n > capacity) {
      if (x)
        cudaFree(x);
      cudaMalloc(&x, n);
      capacity = n;
    }
    work<<<1, 1>>>(x, x);
  }
  cudaFree(x);
}

// Made in the first iteration, and swapped.
// CHECK: lazy in swapped(int)
// CHECK: why allocated-in-loop
// ASSUMED: static in swapped(int)
void swapped(int n) {
  int *x = nullptr, *y = nullptr;
  for (int i = 0; more(); i++) {
    if (i == 0) {
      cudaMalloc(&x, n);
      cudaMalloc(&y, n);
    }
    work<<<1, 1>>>(x, y);
    int *other = x;
    x = y;
    y = other;
  }
  cudaFree(x);
  cudaFree(y);
}

// The object of the iteration before is used, and then freed.
// CHECK: static in previous(int)
// CODE-LABEL: define {{.*}} @_Z8previousi
// CODE: call i64 @mgb_task_begin
// CODE: @_Z4morev()
void previous(int n) {
  int *last = nullptr;
  while (more()) {
    int *x;
    cudaMalloc(&x, n);
    work<<<1, 1>>>(x, last);
    cudaFree(last);
    last = x;
  }
  cudaFree(last);
}

// A history of buffers: counted where the loop counts, else lazy.
// CHECK: static in counted(int)
// CHECK: peak: 100 * n
// CODE-LABEL: define {{.*}} @_Z7countedi
// CODE: call i64 @mgb_task_begin
// CODE: icmp slt i32 %{{.*}}, 100
void counted(int n) {
  int *all[100];
  for (int i = 0; i < 100; i++) {
    cudaMalloc(&all[i], n);
    work<<<1, 1>>>(all[i], all[i > 0 ? i - 1 : 0]);
  }
  for (int i = 0; i < 100; i++)
    cudaFree(all[i]);
}
// CHECK: lazy in history(int)
// CHECK: why allocated-in-loop
// ASSUMED: static in history(int)
void history(int n) {
  int *all[100], used = 0;
  while (more()) {
    cudaMalloc(&all[used], n);
    work<<<1, 1>>>(all[used], all[used > 0 ? used - 1 : 0]);
    used++;
  }
  for (int i = 0; i < used; i++)
    cudaFree(all[i]);
}

// A loop that may end before its bound does not say how many.
// CHECK: lazy in ends_early(int)
// CHECK: why allocated-in-loop
// ASSUMED: static in ends_early(int)
void ends_early(int n) {
  int *all[1000], used = 0;
  for (int i = 0; i < 1000; i++) {
    cudaMalloc(&all[i], n);
    used++;
    work<<<1, 1>>>(all[i], all[i > 0 ? i - 1 : 0]);
    if (more())
      break;
  }
  for (int i = 0; i < used; i++)
    cudaFree(all[i]);
}
// That it ends where an allocation fails does not count.
// CHECK: static in fails(int)
// CHECK: peak: 100 * n
void fails(int n) {
  int *all[100];
  for (int i = 0; i < 100; i++) {
    if (cudaMalloc(&all[i], n) != cudaSuccess)
      break;
    work<<<1, 1>>>(all[i], all[i > 0 ? i - 1 : 0]);
  }
  for (int i = 0; i < 100; i++)
    cudaFree(all[i]);
}

// Freed on some ways only, and used by the others' next iteration.
// CHECK: lazy in sometimes_freed(int)
// CHECK: why allocated-in-loop
void sometimes_freed(int n) {
  int *x = nullptr;
  while (more()) {
    if (!x)
      cudaMalloc(&x, n);
    work<<<1, 1>>>(x, x);
    if (!more())
      continue;
    cudaFree(x);
    x = nullptr;
  }
}
// Freed on all ways.
// CHECK: static in always_freed(int)
// CODE-LABEL: define {{.*}} @_Z12always_freedi
// CODE: @_Z4morev()
// CODE: call i64 @mgb_task_begin
void always_freed(int n) {
  int *x = nullptr;
  while (more()) {
    if (!x)
      cudaMalloc(&x, n);
    work<<<1, 1>>>(x, x);
    if (!more()) {
      cudaFree(x);
      x = nullptr;
      continue;
    }
    cudaFree(x);
    x = nullptr;
  }
}

// A structure whose constructor clears it and whose destructor frees.
struct Buffer {
  int *data = nullptr;
  void resize(int n) {
    cudaFree(data);
    cudaMalloc(&data, n);
  }
  ~Buffer() { cudaFree(data); }
};
// CHECK: static in constructed(int)
// CODE-LABEL: define {{.*}} @_Z11constructedi
// CODE: do.body:
// CODE: call i64 @mgb_task_begin
void constructed(int n) {
  do {
    Buffer one, other;
    one.resize(n);
    other.resize(2 * n);
    work<<<1, 1>>>(one.data, other.data);
  } while (more());
}
// CHECK: static in constructed_before(int)
// CHECK: peak: n
// CODE-LABEL: define {{.*}} @_Z18constructed_beforei
// CODE: call i64 @mgb_task_begin
// CODE: do.body:
void constructed_before(int n) {
  Buffer one;
  do {
    if (more())
      one.resize(n);
    work<<<1, 1>>>(one.data, one.data);
  } while (more());
}

// The inner loop uses one object in all its iterations; the outer one makes it each time.
// CHECK: static in nested(int)
// CODE-LABEL: define {{.*}} @_Z6nestedi
// CODE: @_Z4morev()
// CODE: call i64 @mgb_task_begin
// CODE: @_Z4morev()
// CODE: ret void
void nested(int n) {
  while (more()) {
    int *x = nullptr;
    cudaMalloc(&x, n);
    while (more())
      work<<<1, 1>>>(x, x);
    cudaFree(x);
  }
}
// A loop in a loop that uses what an earlier run of itself made.
// CHECK: lazy in nested_keeps(int)
// CHECK: why allocated-in-loop
void nested_keeps(int n) {
  while (more()) {
    int *x = nullptr;
    while (more()) {
      if (!x)
        cudaMalloc(&x, n);
      work<<<1, 1>>>(x, x);
    }
    cudaFree(x);
  }
}

// A circle with two ways in.
// CHECK: static in two_ways(int, bool)
// CODE-LABEL: define {{.*}} @_Z8two_waysib
// CODE: call i64 @mgb_task_begin
// CODE: br i1
void two_ways(int n, bool way) {
  int *x = nullptr;
  if (way)
    goto second;
first:
  cudaFree(x);
  cudaMalloc(&x, n);
second:
  work<<<1, 1>>>(x, x);
  if (more())
    goto first;
  if (more())
    goto second;
  cudaFree(x);
}

// By an exception control comes to the next iteration without the free.
void may_throw();
// CHECK: static in thrown(int)
void thrown(int n) {
  while (more()) {
    try {
      Buffer one;
      one.resize(n);
      work<<<1, 1>>>(one.data, one.data);
      may_throw();
    } catch (...) {
    }
  }
}
// CHECK: lazy in thrown_past(int)
// CHECK: why allocated-in-loop
void thrown_past(int n) {
  int *x = nullptr;
  while (more()) {
    try {
      if (!x)
        cudaMalloc(&x, n);
      work<<<1, 1>>>(x, x);
      may_throw();
      cudaFree(x);
      x = nullptr;
    } catch (...) {
    }
  }
}
