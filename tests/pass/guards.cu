// A size is read at the task's begin only if that cannot fault where the program would not: not past a call
// that may end the process, unless the bytes are known to be there; and not through a pointer or an index
// that such a call may change.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

__global__ void work(int *x, int *y) {}
struct Config {
  size_t n, more[4];
};
void validate(Config *);
void check(const void *);
size_t log_error(int);

// CHECK: lazy in guarded_by_call(Config*)
// CHECK: why need-undefined
void guarded_by_call(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, config->n);
  work<<<1, 1>>>(x, y);
}
// The same within one block, and in a function of this file that is too large to inline.
static void end_unless(bool right) {
  for (int i = 0; i < 3; i++)
    if (!right && log_error(i) > 2)
      exit(1);
}
// CHECK: lazy in guarded_by_own(Config*)
// CHECK: why need-undefined
void guarded_by_own(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  end_unless(config);
  cudaMalloc(&y, config->n);
  work<<<1, 1>>>(x, y);
}

// printf returns, and so does a function that calls nothing else.
static void print_all(int n) {
  for (int i = 0; i < n; i++)
    printf("%d\n", i);
}
// CHECK: static in printed(Config*)
// CHECK: peak: 64 + *config
void printed(Config *config) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  printf("x\n");
  print_all(3);
  cudaMalloc(&y, config->n);
  work<<<1, 1>>>(x, y);
}
// Locals, globals and references can be read past anything.
size_t total;
extern size_t table[4];
// CHECK: static in readable(Config&)
// CHECK: peak: 64 + *config + total + table
void readable(Config &config) {
  int *x, *y, *z, *w;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, config.n);
  cudaMalloc(&z, total);
  cudaMalloc(&w, table[3]);
  work<<<1, 1>>>(x, y);
  work<<<1, 1>>>(y, z);
  work<<<1, 1>>>(z, w);
}
// So can what the program has read through the same pointer before the begin; but not what lies beside it.
// CHECK: static in read_before(Config*)
// CHECK: peak: *config + config[...]
void read_before(Config *config) {
  int *x, *y;
  size_t sum = config->n + config->more[1];
  cudaMalloc(&x, config->n);
  cudaMemset(x, 0, sum);
  log_error(1);
  cudaMalloc(&y, config->more[1]);
  work<<<1, 1>>>(x, y);
}
// CHECK: lazy in read_beside(Config*)
// CHECK: why need-undefined
void read_beside(Config *config) {
  int *x, *y;
  cudaMalloc(&x, config->n);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, config->more[3]);
  work<<<1, 1>>>(x, y);
}
// A variable that may be missing, and one whose size is not known.
extern size_t optional __attribute__((weak));
extern size_t open_table[];
// CHECK: lazy in maybe_missing()
// CHECK: why need-undefined
void maybe_missing() {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, optional);
  work<<<1, 1>>>(x, y);
}
// CHECK: lazy in unbounded()
// CHECK: why need-undefined
void unbounded() {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, open_table[1000]);
  work<<<1, 1>>>(x, y);
}

// A pointer in a global: another file's function may set it in between, printf does not.
extern Config *current;
// CHECK: lazy in set_between()
// CHECK: why need-undefined
void set_between() {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, current->n);
  work<<<1, 1>>>(x, y);
}
// CHECK: static in set_before()
void set_before() {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  printf("x\n");
  cudaMalloc(&y, current->n);
  work<<<1, 1>>>(x, y);
}
// An index in a global, likewise.
extern size_t which;
// CHECK: lazy in index_between(unsigned long*)
// CHECK: why need-undefined
void index_between(size_t *sizes) {
  int *x, *y, *z;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  cudaMalloc(&y, which);
  cudaMalloc(&z, table[which]);
  work<<<1, 1>>>(x, y);
  work<<<1, 1>>>(x, z);
}

// A function that reads no memory may still trap, unless it is one of the libraries'.
__attribute__((const, nothrow)) size_t quotient(size_t a, size_t b);
// CHECK: lazy in divided(unsigned long, unsigned long)
// CHECK: why need-undefined
void divided(size_t n, size_t parts) {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  if (parts == 0)
    exit(1);
  cudaMalloc(&y, quotient(n, parts));
  work<<<1, 1>>>(x, y);
}

// The bound of a loop is a read like any other.
// CHECK: lazy in counted_after_call(Config*)
// CHECK: why allocated-in-loop
void counted_after_call(Config *config) {
  int *x, *all[16];
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  log_error(1);
  for (size_t i = 0; i < config->n; i++)
    cudaMalloc(&all[i], 64);
  for (size_t i = 0; i < config->n; i++)
    work<<<1, 1>>>(x, all[i]);
}
// CHECK: static in counted_after_printf(Config*)
void counted_after_printf(Config *config) {
  int *x, *all[16];
  cudaMalloc(&x, 64);
  cudaMemset(x, 0, 64);
  printf("x\n");
  for (size_t i = 0; i < config->n; i++)
    cudaMalloc(&all[i], 64);
  for (size_t i = 0; i < config->n; i++)
    work<<<1, 1>>>(x, all[i]);
}
