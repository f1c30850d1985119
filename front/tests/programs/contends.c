/* Threads that allocate at the same time: contends refused|small|twice|huge|ends|own.
   refused: what one thread is refused for its size, others are not; small: allocations that share a granule leave none
   behind; twice: memory freed in a stream is not freed again; huge: a pool has no room for it, ever;
   ends: a pool is destroyed while others allocate from it; own: what is freed in a stream is allocated anew by others
   at once. */
#include "stages.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 200

static CUcontext context;
static pthread_barrier_t meet;

static void expect(int is, const char *what) {
  if (!is) {
    printf("FAIL: %s\n", what);
    exit(1);
  }
}

static void *refused(void *number) {
  CUdeviceptr address;
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; i++) {
    size_t bytes = number ? 4 << 20 : (size_t)1 << 40;
    CUresult code = cuMemAlloc(&address, bytes);
    expect(code == (number ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY), "refused for its own size only");
    if (!code)
      CHECK(cuMemFree(address));
  }
  return NULL;
}

static void *small(void *number) {
  CUdeviceptr address;
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&meet);
    CHECK(cuMemAlloc(&address, 1000));
    pthread_barrier_wait(&meet);
    CHECK(cuMemFree(address));
  }
  return number;
}

static void *ends(void *number) {
  CUdeviceptr address;
  CUmemoryPool pool;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; i++) {
    if (!number) {
      CHECK(cuMemPoolCreate(&pool, &props));
      CHECK(cuDeviceSetMemPool(0, pool));
      CHECK(cuMemPoolDestroy(pool));
    } else if (!cuMemAllocAsync(&address, 4 << 20, 0)) {
      CHECK(cuMemFreeAsync(address, 0));
    }
  }
  return NULL;
}

static void *own(void *number) {
  CUdeviceptr address;
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < 10 * ROUNDS; i++) {
    CHECK(cuMemAlloc(&address, 5000));
    CHECK(cuMemFreeAsync(address, 0));
  }
  return number;
}

static void all(void *(*run)(void *)) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&meet, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, run, (void *)i);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void twice(void) {
  CUdeviceptr address, kept;
  for (int i = 0; i < 10 * ROUNDS; i++) {
    CHECK(cuMemAlloc(&address, 4096));
    /* The granule stays mapped. */
    if (i == 0)
      CHECK(cuMemAlloc(&kept, 4096));
    CHECK(cuMemsetD8Async(address, 1, 4096, 0));
    CHECK(cuMemFreeAsync(address, 0));
    CHECK(cuStreamSynchronize(0));
    expect(cuMemFreeAsync(address, 0) == CUDA_ERROR_INVALID_VALUE, "freed twice");
  }
  CHECK(cuCtxSynchronize());
  CHECK(cuMemFree(kept));
}

static void huge(void) {
  CUdeviceptr address, kept;
  CHECK(cuMemAllocAsync(&kept, 8 << 20, 0));
  expect(cuMemAllocAsync(&address, (size_t)1 << 40, 0) == CUDA_ERROR_OUT_OF_MEMORY, "more than any GPU has");
  expect(cuMemAllocAsync(&address, 60 << 20, 0) == CUDA_ERROR_OUT_OF_MEMORY, "more than there is beside the rest");
  CHECK(cuMemFreeAsync(kept, 0));
  CHECK(cuStreamSynchronize(0));
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  context = begin();
  if (is(argv[1], "refused"))
    all(refused);
  if (is(argv[1], "small"))
    all(small);
  if (is(argv[1], "ends"))
    all(ends);
  if (is(argv[1], "own"))
    all(own);
  if (is(argv[1], "twice"))
    twice();
  if (is(argv[1], "huge"))
    huge();
  stage("done");
  puts("PASS");
  return 0;
}
