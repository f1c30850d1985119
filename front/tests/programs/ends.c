/* Ends while one of its threads waits for more memory: ends MIB MORE_MIB AFTER_MS. Its exit code is 3. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static size_t more;

static void *ask(void *unused) {
  CUdeviceptr memory;
  (void)unused;
  CHECK(cuCtxSetCurrent(context));
  cuMemAlloc(&memory, more);
  puts("went on");
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  CUdeviceptr memory;
  pthread_t thread;
  context = begin();
  CHECK(cuMemAlloc(&memory, (size_t)atoi(argv[1]) << 20));
  more = (size_t)atoi(argv[2]) << 20;
  pthread_create(&thread, NULL, ask, NULL);
  usleep(1000 * atoi(argv[3]));
  puts("ends");
  exit(3);
}
