/* A library that is preloaded and counts allocations: another tool's hook, which looks for the next function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
  int (*next)(unsigned long long *, size_t) = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  printf("preloaded: cuMemAlloc_v2 %zu\n", bytes);
  return next(pointer, bytes);
}
