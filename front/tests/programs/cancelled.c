/* Cancels a thread that waits for room: cancelled MIB. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static size_t bytes;
static volatile int begun;

static void *wait_for_room(void *unused) {
  CUdeviceptr memory;
  CHECK(cuCtxSetCurrent(context));
  begun = 1;
  CHECK(cuMemAlloc(&memory, bytes));
  for (;;)
    pthread_testcancel();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  void *result;
  CUdeviceptr little;
  alarm(60);
  if (argc != 2)
    return 2;
  bytes = (size_t)atoi(argv[1]) << 20;
  context = begin();
  pthread_create(&thread, NULL, wait_for_room, NULL);
  while (!begun)
    usleep(1000);
  usleep(200000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  puts(result == PTHREAD_CANCELED ? "cancelled" : "ended");
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&little, 1 << 20));
  puts("PASS");
  return 0;
}
