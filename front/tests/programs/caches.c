/* Asks for more than there is, as an allocator with a cache does: caches [LIBRARY]. Prints what the calls answer. */
#include "check.h"
#include <dlfcn.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

int main(int argc, char **argv) {
  CUdeviceptr cached, wanted;
  if (argc > 1 && !dlopen(argv[1], RTLD_NOW)) {
    puts(dlerror());
    return 1;
  }
  begin();
  CHECK(cuMemAlloc(&cached, 10 * MIB));
  CUresult first = cuMemAlloc(&wanted, 20 * MIB);
  printf("first %d\n", first);
  if (first == CUDA_ERROR_OUT_OF_MEMORY) {
    CHECK(cuMemFree(cached));
    CHECK(cuMemAlloc(&wanted, 20 * MIB));
    puts("again 0");
  }
  /* What can never fit fails in any case. */
  for (int i = 0; i < 3; i++)
    if (cuMemAlloc(&cached, 200 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
      puts("FAIL");
  puts("PASS");
  return 0;
}
