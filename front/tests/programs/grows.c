/* Allocates device memory in steps and checks all of it again after each step:
   grows STEPS MIB PAUSE_MS [THREADS]. With threads, each of them fills and checks a buffer of its own meanwhile. */
#include "check.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define MOST 64
#define SMALL 1000

static CUcontext context;
static volatile int over;

static void *work(void *argument) {
  int number = (int)(long)argument;
  CUdeviceptr buffer;
  unsigned char back[4096];
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&buffer, sizeof back));
  for (int turn = 0; !over; turn++) {
    CHECK(cuMemsetD8(buffer, number + turn, sizeof back));
    CHECK(cuMemcpyDtoH(back, buffer, sizeof back));
    for (size_t i = 0; i < sizeof back; i++)
      if (back[i] != (unsigned char)(number + turn)) {
        puts("FAIL: a thread's buffer");
        exit(1);
      }
  }
  CHECK(cuMemFree(buffer));
  return NULL;
}

static void check(CUdeviceptr address, size_t bytes, int value, unsigned char *back) {
  CHECK(cuMemcpyDtoH(back, address, bytes));
  for (size_t i = 0; i < bytes; i++)
    if (back[i] != (unsigned char)value) {
      printf("FAIL: byte %zu of allocation %d is %d\n", i, value, back[i]);
      exit(1);
    }
}

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  int steps = atoi(argv[1]), threads = argc > 4 ? atoi(argv[4]) : 0;
  size_t bytes = (size_t)atoi(argv[2]) << 20;
  CUdeviceptr taken[MOST], small[MOST];
  pthread_t workers[32];
  unsigned char *back = malloc(bytes);
  context = begin();
  for (long i = 0; i < threads; i++)
    pthread_create(&workers[i], NULL, work, (void *)(i + 1));
  for (int step = 0; step < steps; step++) {
    CHECK(cuMemAlloc(&taken[step], bytes));
    CHECK(cuMemAlloc(&small[step], SMALL));
    CHECK(cuMemsetD8(taken[step], step + 1, bytes));
    CHECK(cuMemsetD8(small[step], step + 101, SMALL));
    usleep(1000 * atoi(argv[3]));
    for (int i = 0; i <= step; i++) {
      check(taken[i], bytes, i + 1, back);
      check(small[i], SMALL, i + 101, back);
    }
  }
  over = 1;
  for (int i = 0; i < threads; i++)
    pthread_join(workers[i], NULL);
  for (int i = 0; i < steps; i++) {
    CHECK(cuMemFree(taken[i]));
    CHECK(cuMemFree(small[i]));
  }
  puts("PASS");
  return 0;
}
