/* Asks for more than is free, beside an allocator with a cache: caches LIBRARY own|other. The allocator asks in the
   process (own), or other code does (other), as a library for its workspace. Prints what the calls answer. */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

typedef CUresult (*Allocate)(CUdeviceptr *, size_t);

static CUresult create(CUdeviceptr *handle, size_t bytes) {
  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  return cuMemCreate(handle, bytes, &prop, 0);
}

int main(int argc, char **argv) {
  CUdeviceptr cached, wanted;
  void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) {
    puts(dlerror());
    return 1;
  }
  Allocate allocate = (Allocate)dlsym(library, "allocate");
  int own = !strcmp(argv[2], "own");
  begin();
  CHECK(allocate(&cached, 10 * MIB));
  CUresult first = own ? allocate(&wanted, 20 * MIB) : create(&wanted, 20 * MIB);
  printf("first %d\n", first);
  if (first == CUDA_ERROR_OUT_OF_MEMORY) {
    CHECK(cuMemFree(cached));
    CHECK(allocate(&wanted, 20 * MIB));
    puts("again 0");
  }
  /* What can never fit fails in any case. */
  for (int i = 0; i < 3; i++)
    if (allocate(&cached, 200 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
      puts("FAIL");
  puts("PASS");
  return 0;
}
