/* Allocates device memory by the runtime, in steps, holds it, and frees it:
   takes malloc|pitch|reset|threads STEPS MIB HOLD_MS. Prints where its first device is, then each stage; reads a line
   before it ends. With `threads` each step is taken by a thread of its own, whose first call of CUDA it is. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 64
#define CHECK(call)                                                                   \
  do {                                                                                \
    cudaError_t code_ = (call);                                                       \
    if (code_ != cudaSuccess) {                                                       \
      printf("%s: %s, line %d\n", #call, cudaGetErrorName(code_), __LINE__);          \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

static size_t bytes;
static void *taken[MOST];
static pthread_barrier_t all;

static void take(int step) {
  unsigned char back = 0;
  CHECK(cudaMalloc(&taken[step], bytes));
  CHECK(cudaMemset(taken[step], step + 1, bytes));
  CHECK(cudaMemcpy(&back, (char *)taken[step] + bytes - 1, 1, cudaMemcpyDeviceToHost));
  if (back != step + 1) {
    puts("FAIL");
    exit(1);
  }
}

static void *thread(void *step) {
  pthread_barrier_wait(&all);
  take((int)(size_t)step);
  return NULL;
}

static void take_by_threads(int steps) {
  pthread_t threads[MOST];
  pthread_barrier_init(&all, NULL, steps);
  for (int i = 0; i < steps; i++)
    pthread_create(&threads[i], NULL, thread, (void *)(size_t)i);
  for (int i = 0; i < steps; i++)
    pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  int steps = atoi(argv[2]);
  size_t pitch;
  char place[32], line[16];
  bytes = (size_t)atoi(argv[3]) << 20;
  if (!strcmp(argv[1], "threads"))
    take_by_threads(steps);
  CHECK(cudaDeviceGetPCIBusId(place, sizeof place, 0));
  printf("at %s\n", place);
  for (int i = 0; i < steps; i++)
    if (!strcmp(argv[1], "pitch"))
      CHECK(cudaMallocPitch(&taken[i], &pitch, 1024, bytes / 1024));
    else if (strcmp(argv[1], "threads"))
      take(i);
  puts("holds");
  fflush(stdout);
  usleep(1000 * atoi(argv[4]));
  if (!strcmp(argv[1], "reset"))
    CHECK(cudaDeviceReset());
  else
    for (int i = 0; i < steps; i++)
      CHECK(cudaFree(taken[i]));
  puts("freed");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    line[0] = 0;
  puts("PASS");
  return 0;
}
