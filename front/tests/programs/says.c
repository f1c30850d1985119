/* Says that others wait for it, as Python does by ctypes, before or after its first use of a GPU, and waits until a
   file is there: says early|late FILE. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static void say(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void (*latency)(void) = library ? (void (*)(void))dlsym(library, "mgb_front_latency") : NULL;
  if (latency == NULL) {
    puts("FAIL: no such function");
    exit(1);
  }
  latency();
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  CUdeviceptr memory;
  int is_early = strcmp(argv[1], "early") == 0;
  alarm(60);
  if (is_early)
    say();
  begin();
  CHECK(cuMemAlloc(&memory, 4 << 20));
  if (!is_early)
    say();
  while (access(argv[2], F_OK) != 0) {
    CHECK(cuMemsetD8Async(memory, 1, 4 << 20, 0));
    CHECK(cuCtxSynchronize());
    usleep(2000);
  }
  CHECK(cuMemFree(memory));
  puts("PASS");
  return 0;
}
