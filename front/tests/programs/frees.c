/* Frees memory of cuMemAlloc at moments at which nobody may wait for the GPU: frees capture MODE MIB (another thread
   frees while a stream captures in that mode), frees own MIB (the thread that captures does), frees order MIB (behind
   work that waits for the host), frees grows MIB (a third of the memory is allocated while another thread frees as
   much). Reads a line once it has allocated, prints what came of it, and reads a line before it ends. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

typedef int (*LaunchHost)(CUstream, void (*)(void *), void *);

static CUcontext context;
static CUdeviceptr freed;
static volatile int goes, gone;

static void *frees(void *unused) {
  CHECK(cuCtxSetCurrent(context));
  while (!goes)
    usleep(1000);
  CHECK(cuMemFree(freed));
  /* It is freed for the program, whenever its memory is. */
  CUresult again = cuMemFree(freed);
  if (again != CUDA_ERROR_INVALID_VALUE)
    printf("freed twice: %d\n", again);
  gone = 1;
  return unused;
}

static void pause_here(void) {
  char line[16];
  fflush(stdout);
  if (fgets(line, sizeof line, stdin))
    puts(line);
}

static void capture(CUstreamCaptureMode mode, int is_own) {
  CUdeviceptr used;
  CUstream stream;
  CUgraph graph;
  pthread_t thread;
  CHECK(cuMemAlloc(&used, 4 * MIB));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (!is_own)
    pthread_create(&thread, NULL, frees, NULL);
  CHECK(cuStreamBeginCapture(stream, mode));
  CHECK(cuMemsetD8Async(used, 7, 4096, stream));
  goes = 1;
  if (is_own)
    frees(NULL);
  while (!gone)
    usleep(1000);
  CHECK(cuMemsetD8Async(used, 8, 4096, stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  puts("captured");
}

static void waits(void *until) {
  while (!*(volatile int *)until)
    usleep(1000);
}

static void order(void) {
  CUstream stream;
  void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
  LaunchHost launch = (LaunchHost)dlsym(runtime, "cudaLaunchHostFunc");
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (launch(stream, waits, (void *)&goes))
    exit(1);
  CHECK(cuMemFreeAsync(freed, stream));
  puts("given");
  pause_here();
  goes = 1;
  CHECK(cuStreamSynchronize(stream));
  puts("done");
}

static void *frees_later(void *unused) {
  CHECK(cuCtxSetCurrent(context));
  usleep(300000);
  CHECK(cuMemFree(freed));
  return unused;
}

static void grows(size_t bytes) {
  CUdeviceptr more;
  pthread_t thread;
  pthread_create(&thread, NULL, frees_later, NULL);
  CHECK(cuMemAlloc(&more, bytes));
  pthread_join(thread, NULL);
  puts("grown");
}

int main(int argc, char **argv) {
  /* A test that hangs fails instead. */
  alarm(60);
  if (argc < 3)
    return 2;
  size_t bytes = (size_t)atoi(argv[argc - 1]) * MIB;
  context = begin();
  CHECK(cuMemAlloc(&freed, bytes));
  puts("allocated");
  pause_here();
  if (!strcmp(argv[1], "capture"))
    capture(atoi(argv[2]), 0);
  else if (!strcmp(argv[1], "own"))
    capture(CU_STREAM_CAPTURE_MODE_RELAXED, 1);
  else if (!strcmp(argv[1], "order"))
    order();
  else
    grows(bytes);
  pause_here();
  puts("PASS");
  return 0;
}
