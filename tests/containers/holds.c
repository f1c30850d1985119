// A program that nobody built with MGB: it takes MiB of the first GPU by the driver's own functions, keeps them for some
// time, and looks whether they are as it wrote them.
//
//   holds MiB ms

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

#define CALL(name, ...)                                                                                                 \
  do {                                                                                                                  \
    int (*function)() = (int (*)())dlsym(library, name);                                                                \
    int code = function ? function(__VA_ARGS__) : -1;                                                                   \
    if (code != 0) {                                                                                                    \
      fprintf(stderr, "holds: %s failed: %d\n", name, code);                                                            \
      return 2;                                                                                                         \
    }                                                                                                                   \
  } while (0)

int main(int count, char **arguments) {
  if (count != 3)
    return 3;
  size_t bytes = (size_t)atoi(arguments[1]) << 20;
  int device;
  void *context;
  unsigned long long memory;
  char *host = malloc(bytes);
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "holds: %s\n", dlerror());
    return 2;
  }
  CALL("cuInit", 0);
  CALL("cuDeviceGet", &device, 0);
  CALL("cuDevicePrimaryCtxRetain", &context, device);
  CALL("cuCtxSetCurrent", context);
  CALL("cuMemAlloc_v2", &memory, bytes);
  for (size_t i = 0; i < bytes; i++)
    host[i] = (char)(i * 7);
  CALL("cuMemcpyHtoD_v2", memory, host, bytes);
  memset(host, 0, bytes);
  usleep(1000 * atoi(arguments[2]));
  CALL("cuMemcpyDtoH_v2", host, memory, bytes);
  for (size_t i = 0; i < bytes; i++)
    if (host[i] != (char)(i * 7))
      return 1;
  CALL("cuMemFree_v2", memory);
  puts("PASS");
  return 0;
}
