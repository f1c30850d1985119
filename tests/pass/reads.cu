// Sizes that are kept in globals and in variables whose address was given away are read at the task's begin,
// where nothing that comes before the program's own read writes them.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: FileCheck %s --input-file=%t.ll --check-prefix=IR
#include "cuda.h"

__global__ void work(int *x, int *y) {}
void fill(int *n);
int scan(const char *, ...);
size_t total;
struct Sizes {
  int first, second;
  int *begin, *end;
  int length() const { return end - begin; }
};
void parse(Sizes *sizes);

// CHECK: static in kept(int*)
// CHECK: peak: 2 * (4 * n) + total
// The load at the begin has no metadata: the variable may not be set yet there.
// IR-LABEL: define {{.*}}@_Z4keptPi
// IR: load i32, ptr %n, align 4, !dbg {{![0-9]+$}}
// IR: call i64 @mgb_task_begin
void kept(int *host) {
  int n;
  scan("%d", &n);
  int *x, *y, *z;
  cudaMalloc(&x, 4 * (size_t)n);
  cudaMemcpy(x, host, 4 * (size_t)n, cudaMemcpyHostToDevice);
  printf("%d\n", n);
  cudaMalloc(&y, 4 * (size_t)n);
  cudaMemcpy(y, host, 4 * (size_t)n, cudaMemcpyHostToDevice);
  cudaMalloc(&z, total);
  work<<<n, 32>>>(x, y);
  work<<<n, 32>>>(x, z);
}

// CHECK: lazy in refilled()
// CHECK: why need-undefined
void refilled() {
  int n;
  fill(&n);
  int *x, *y;
  cudaMalloc(&x, 4 * (size_t)n);
  cudaMemset(x, 0, 4 * (size_t)n);
  fill(&n);
  cudaMalloc(&y, 4 * (size_t)n);
  work<<<1, 1>>>(x, y);
}

// CHECK: lazy in stored(unsigned long*)
// CHECK: why need-undefined
static void change() { total = 7; }
void stored(size_t *sizes) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  for (int i = 0; i < 2; i++)
    change();
  cudaMalloc(&y, total);
  work<<<1, 1>>>(x, y);
}

// After a copy back from the GPU it has another value.
// CHECK: lazy in counted()
// CHECK: why need-undefined
void counted() {
  int n;
  fill(&n);
  int *x, *y;
  cudaMalloc(&x, 4);
  cudaMemcpy(x, &n, 4, cudaMemcpyHostToDevice);
  work<<<1, 1>>>(x, x);
  cudaMemcpy(&n, x, 4, cudaMemcpyDeviceToHost);
  cudaMalloc(&y, n);
  work<<<1, 1>>>(x, y);
}

// A member of what was filled, and a method that only looks at it; another member is written.
// CHECK: static in members()
// CHECK: peak: 64 +
void members() {
  Sizes sizes;
  parse(&sizes);
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  sizes.first = 3;
  cudaMalloc(&y, sizes.length());
  work<<<sizes.second, 1>>>(x, y);
}

// A structure passed by value, and one that new made: neither can be missing at the begin.
struct Config {
  size_t first, second, more[4];
  size_t bytes() const { return second; }
};
// CHECK: static in given(Config)
// CHECK: peak: *config + config[...]
void given(Config config) {
  int *x, *y;
  cudaMalloc(&x, config.first);
  cudaMemset(x, 0, 64);
  cudaMalloc(&y, config.bytes());
  work<<<1, 1>>>(x, y);
}
void configure(Config *);
// CHECK: static in made()
void made() {
  Config *config = new Config;
  configure(config);
  int *x, *y;
  cudaMalloc(&x, config->first);
  cudaMemset(x, 0, 64);
  cudaMalloc(&y, config->bytes());
  work<<<1, 1>>>(x, y);
}

// Memory behind a parameter is read at the begin if the program is certain to read it later; not if it may
// not, or if another function may write to it in between.
// CHECK: static in elsewhere(Config*)
// CHECK: peak: 64 + config[...]
void elsewhere(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  cudaMalloc(&y, config->bytes());
  work<<<1, 1>>>(x, y);
}
// CHECK: lazy in perhaps(Config*)
// CHECK: why {{need-undefined|no-dominating-point}}
void perhaps(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  size_t size = 64;
  if (config)
    size = config->bytes();
  cudaMalloc(&y, size);
  work<<<1, 1>>>(x, y);
}
// CHECK: lazy in overwritten(Config*)
// CHECK: why need-undefined
void overwritten(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  configure(config);
  cudaMalloc(&y, config->bytes());
  work<<<1, 1>>>(x, y);
}

// Memory that may be deleted by then is not read.
// CHECK: lazy in sometimes(bool)
// CHECK: why {{need-undefined|no-dominating-point}}
void sometimes(bool once) {
  Config *config = new Config;
  configure(config);
  if (once)
    delete config;
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  size_t size = 64;
  if (!once)
    size = config->bytes();
  cudaMalloc(&y, size);
  work<<<1, 1>>>(x, y);
}

// The same if the function that deletes it is not visible.
// CHECK: lazy in somehow(bool)
// CHECK: why {{need-undefined|no-dominating-point}}
void somehow(bool once) {
  Config *config = new Config;
  configure(config);
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  if (once)
    return;
  cudaMalloc(&y, config->bytes());
  work<<<1, 1>>>(x, y);
}

// Through a method that gives the address of a member, and what a vector holds at a place known by then.
struct Numbers {
  size_t *first, *last;
  size_t &at(size_t which) { return first[which]; }
};
struct Mesh {
  Numbers numbers;
  size_t size;
  size_t &side() { return size; }
};
// CHECK: static in indexed(Mesh*, unsigned long)
void indexed(Mesh *mesh, size_t n) {
  int *x, *y, *z;
  cudaMalloc(&x, 64);
  cudaMemcpy(x, &mesh->numbers.at(0), 64, cudaMemcpyHostToDevice);
  size_t size = mesh->side() + 1;
  cudaMalloc(&y, size * size);
  cudaMalloc(&z, mesh->numbers.at(n));
  work<<<1, 1>>>(x, y);
  work<<<1, 1>>>(x, z);
}
// Written through such an address, it is what was written.
// CHECK: static in through(Mesh*, unsigned long)
// CHECK: object 2 y: n * n
void through(Mesh *mesh, size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemcpy(x, &mesh->numbers.at(0), 64, cudaMemcpyHostToDevice);
  mesh->side() = n * n;
  cudaMalloc(&y, mesh->side());
  work<<<1, 1>>>(x, y);
}
// Or it is not known before.
void change(size_t &value);
// CHECK: lazy in changed(Mesh*)
// CHECK: why need-undefined
void changed(Mesh *mesh) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemcpy(x, &mesh->numbers.at(0), 64, cudaMemcpyHostToDevice);
  change(mesh->side());
  cudaMalloc(&y, mesh->side());
  work<<<1, 1>>>(x, y);
}
// Nor where an element of the same array is written.
// CHECK: lazy in element(Mesh*, unsigned long)
// CHECK: why need-undefined
void element(Mesh *mesh, size_t n) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  mesh->numbers.at(n / 2) = 0;
  cudaMalloc(&y, mesh->numbers.at(n));
  work<<<1, 1>>>(x, y);
}
// Nor where the object itself is.
// CHECK: lazy in anew()
// CHECK: why need-undefined
void anew() {
  Config *config = new Config;
  configure(config);
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  config->second = (size_t)atoi("1");
  cudaMalloc(&y, config->bytes());
  work<<<1, 1>>>(x, y);
}

// A read that is guarded by an exit is not moved before the guard: the pointer may be null, the index too
// large. Memory that is known to be there is read.
// CHECK: lazy in guarded(Config*)
// CHECK: why need-undefined
void guarded(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  if (!config)
    exit(1);
  cudaMalloc(&y, config->bytes());
  work<<<1, 1>>>(x, y);
}
// CHECK: lazy in indexed_guarded(Config&, unsigned long)
// CHECK: why need-undefined
void indexed_guarded(Config &config, size_t which) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  if (which >= 4)
    exit(1);
  cudaMalloc(&y, config.more[which]);
  work<<<1, 1>>>(x, y);
}
// CHECK: static in by_reference(Config&, bool)
// CHECK: peak: 64 + config[...]
void by_reference(Config &config, bool wrong) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  if (wrong)
    exit(1);
  cudaMalloc(&y, config.bytes());
  work<<<1, 1>>>(x, y);
}
