/* A program that loads the driver by its name, and a library that was built with MGB, where nothing else finds that one's
   symbols: hosts driver|library|loaded LIBRARY. The first argument says which of the two uses the GPU first, or that the
   program does once the library is loaded. Reads a line before it ends. */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

#define STRING(name) #name
#define NAME(name) STRING(name)
/* The driver's function, in the version that the header names. */
#define CALL(name, ...) CHECK(((__typeof__(&name))dlsym(driver, NAME(name)))(__VA_ARGS__))

static void use_driver(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CUdevice device;
  CUcontext context;
  CUdeviceptr pointer;
  if (!driver) {
    puts(dlerror());
    exit(1);
  }
  CALL(cuInit, 0);
  CALL(cuDeviceGet, &device, 0);
  CALL(cuDevicePrimaryCtxRetain, &context, device);
  CALL(cuCtxSetCurrent, context);
  CALL(cuMemAlloc, &pointer, 4 << 20);
  CALL(cuMemsetD8, pointer, 1, 4 << 20);
}

typedef int (*taker)(size_t);

static taker load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  taker take = library ? (taker)dlsym(library, "take") : NULL;
  if (!take) {
    puts(dlerror());
    exit(1);
  }
  return take;
}

static void use_library(taker take) {
  if (!take(4 << 20)) {
    puts("FAIL");
    exit(1);
  }
}

int main(int argc, char **argv) {
  char line[16];
  if (argc != 3)
    return 2;
  if (!strcmp(argv[1], "driver")) {
    use_driver();
    use_library(load(argv[2]));
  } else if (!strcmp(argv[1], "library")) {
    use_library(load(argv[2]));
    use_driver();
  } else {
    taker take = load(argv[2]);
    use_driver();
    use_library(take);
  }
  puts("holds");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    line[0] = 0;
  puts("PASS");
  return 0;
}
