/* Children are forked beside threads that allocate, and call the driver: forks THREADS. Prints what it answers them. */
#include "check.h"
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext context;
static CUdeviceptr mine;
static volatile int stops;

static void *allocate(void *seed) {
  unsigned random = (unsigned)(size_t)seed;
  CHECK(cuCtxSetCurrent(context));
  while (!stops) {
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, 1 + rand_r(&random) % 3000000));
    CHECK(cuMemFree(memory));
  }
  return NULL;
}

static int call(int which) {
  CUdeviceptr memory;
  size_t one, other;
  unsigned kind;
  CUcontext current;
  switch (which) {
  case 0:
    return cuMemFree(mine);
  case 1:
    return cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mine);
  case 2:
    return cuMemAlloc(&memory, 1000);
  case 3:
    return cuMemGetInfo(&one, &other);
  case 4:
    return cuInit(0);
  case 5:
    return cuMemsetD8(mine, 1, 10);
  case 6:
    return cuDevicePrimaryCtxRetain(&current, 0);
  case 7:
    return cuMemFreeAsync(mine, 0);
  default:
    exit(0);
  }
}

int main(int argc, char **argv) {
  pthread_t threads[16];
  if (argc != 2)
    return 2;
  int count = atoi(argv[1]);
  context = begin();
  CHECK(cuMemAlloc(&mine, 1 << 22));
  for (long i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, allocate, (void *)(i + 1));
  for (int which = 0; which < 9; which++) {
    int answers[256] = {0}, hung = 0;
    for (int i = 0; i < 30; i++) {
      pid_t child = fork();
      if (!child) {
        alarm(5);
        _exit(call(which));
      }
      int status;
      waitpid(child, &status, 0);
      if (WIFEXITED(status))
        answers[WEXITSTATUS(status)]++;
      else
        hung++;
    }
    printf("%d: %d hung;", which, hung);
    for (int code = 0; code < 256; code++)
      if (answers[code])
        printf(" %d x %d", answers[code], code);
    puts("");
    fflush(stdout);
  }
  stops = 1;
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  puts("PASS");
  return 0;
}
