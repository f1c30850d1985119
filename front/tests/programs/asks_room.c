/* Asks what is free, a hundred times, while another thread allocates and frees. */
#include "check.h"
#include <pthread.h>

static CUcontext context;
static volatile int stops;

static void *allocate(void *unused) {
  CHECK(cuCtxSetCurrent(context));
  for (unsigned i = 0; !stops; i++) {
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, (size_t)(1 + i % 8) << 21));
    CHECK(cuMemFree(memory));
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  size_t free_bytes, total, least = ~(size_t)0, most = 0;
  context = begin();
  pthread_create(&thread, NULL, allocate, NULL);
  for (int i = 0; i < 100; i++) {
    CHECK(cuMemGetInfo(&free_bytes, &total));
    least = free_bytes < least ? free_bytes : least;
    most = free_bytes > most ? free_bytes : most;
  }
  stops = 1;
  pthread_join(thread, NULL);
  CHECK(cuMemGetInfo(&free_bytes, &total));
  printf("%zu to %zu of %zu MiB\n", least >> 20, most >> 20, free_bytes >> 20);
  puts("PASS");
  return 0;
}
