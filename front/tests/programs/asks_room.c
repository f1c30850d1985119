/* Asks what is free, three hundred times, while another thread allocates and frees. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static volatile int stops;

static void *allocate(void *unused) {
  CHECK(cuCtxSetCurrent(context));
  CUdeviceptr held[16] = {0};
  unsigned random = 1;
  while (!stops) {
    int at = rand_r(&random) % 16;
    if (held[at]) {
      CHECK(cuMemFree(held[at]));
      held[at] = 0;
    } else {
      size_t bytes = 1 + rand_r(&random) % 3000000;
      CHECK(cuMemAlloc(&held[at], bytes));
      CHECK(cuMemsetD8(held[at], 1, bytes));
    }
  }
  for (int at = 0; at < 16; at++)
    if (held[at])
      CHECK(cuMemFree(held[at]));
  return unused;
}

int main(void) {
  pthread_t thread;
  size_t free_bytes, total, least = ~(size_t)0, most = 0;
  context = begin();
  pthread_create(&thread, NULL, allocate, NULL);
  for (int i = 0; i < 300; i++) {
    usleep(2000);
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
