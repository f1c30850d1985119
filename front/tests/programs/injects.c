/* A driver that loads a tool as it is initialised, as CUDA_INJECTION64_PATH has NVIDIA's do: the tool initialises the
   driver as well, by the name that every program uses. All else is the software GPU's, which this is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

typedef int (*Init)(unsigned);

int cuInit(unsigned flags) {
  static __thread int is_inside;
  Init own = (Init)dlsym(RTLD_NEXT, "cuInit");
  if (!own) {
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
    own = (Init)dlsym(runtime, "cuInit");
  }
  if (!is_inside) {
    is_inside = 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    printf("tool: %d\n", ((Init)dlsym(driver, "cuInit"))(flags));
    is_inside = 0;
  }
  return own(flags);
}
