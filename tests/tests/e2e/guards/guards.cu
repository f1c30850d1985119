// Programs that guard what they read by something that the pass does not see into: a function of another file that ends the
// process, or that makes the pointer. The argument names the case.
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Config {
  size_t n;
  size_t sizes[3];
};

// In checks.cpp.
void validate(bool given);
void refresh();
__attribute__((const)) size_t quotient(size_t a, size_t b);
extern Config *current;
extern size_t which;

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      printf("%s: %s\n", #call, cudaGetErrorString(error));                                                            \
      failed = true;                                                                                                   \
    }                                                                                                                  \
  } while (0)

static bool failed;

__global__ void add(int *x, const int *y) { x[0] = y[0] + 1; }

// A null pointer, which another file's function refuses. The function is not given the pointer: it might
// write what is behind it, and nothing would be read early for that reason alone.
__attribute__((noinline)) void null_pointer(Config *config) {
  int *x, *y;
  CHECK(cudaMalloc(&x, 64));
  CHECK(cudaMemset(x, 0, 64));
  validate(config != nullptr);
  CHECK(cudaMalloc(&y, config->n));
  CHECK(cudaMemset(y, 0, config->n));
  add<<<1, 1>>>(x, y);
  CHECK(cudaDeviceSynchronize());
}

// A pointer in a global, which another file's function sets.
__attribute__((noinline)) void set_later() {
  int *x, *y;
  CHECK(cudaMalloc(&x, 64));
  CHECK(cudaMemset(x, 0, 64));
  refresh();
  CHECK(cudaMalloc(&y, current->n));
  CHECK(cudaMemset(y, 0, current->n));
  add<<<1, 1>>>(x, y);
  CHECK(cudaDeviceSynchronize());
}

// An index in a global, which another file's function makes small enough.
__attribute__((noinline)) void index_later(size_t *sizes) {
  int *x, *y, *z;
  CHECK(cudaMalloc(&x, 64));
  CHECK(cudaMemset(x, 0, 64));
  refresh();
  CHECK(cudaMalloc(&y, sizes[which]));
  CHECK(cudaMemset(y, 0, sizes[which]));
  CHECK(cudaMalloc(&z, 64 + which));
  add<<<1, 1>>>(x, y);
  add<<<1, 1>>>(x, z);
  CHECK(cudaDeviceSynchronize());
}

// A division by zero in a function that promises to read no memory.
__attribute__((noinline)) void divisor(size_t bytes, size_t parts) {
  int *x, *y;
  CHECK(cudaMalloc(&x, 64));
  CHECK(cudaMemset(x, 0, 64));
  if (parts == 0) {
    puts("no parts");
    exit(4);
  }
  CHECK(cudaMalloc(&y, quotient(bytes, parts)));
  CHECK(cudaMemset(y, 0, quotient(bytes, parts)));
  add<<<1, 1>>>(x, y);
  CHECK(cudaDeviceSynchronize());
}

int main(int, char **arguments) {
  setbuf(stdout, nullptr);
  const char *name = arguments[1];
  Config config = {64, {64, 64, 64}};
  if (!strcmp(name, "pointer"))
    null_pointer(&config);
  else if (!strcmp(name, "null-pointer"))
    null_pointer(nullptr);
  else if (!strcmp(name, "set-later"))
    set_later();
  else if (!strcmp(name, "index-later"))
    index_later(config.sizes);
  else if (!strcmp(name, "divisor"))
    divisor(256, 4);
  else if (!strcmp(name, "no-divisor"))
    divisor(256, 0);
  else
    return 2;
  puts(failed ? "FAIL" : "PASS");
  return failed;
}
