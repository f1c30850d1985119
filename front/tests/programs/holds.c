/* Allocates device memory in steps, by the way that is asked for, holds it, and frees it:
   holds alloc|create|reset|async|managed|array|reset-array STEPS MIB HOLD_MS. Prints each stage; reads a line before it ends. */
#include "check.h"
#include <string.h>
#include <unistd.h>

#define MOST 64

static CUmemGenericAllocationHandle handles[MOST];

static CUarray arrays[MOST];

static int is(const char *way, const char *name) { return !strcmp(way, name); }

static CUdeviceptr take(const char *way, size_t bytes, int step) {
  CUdeviceptr address = 0;
  if (is(way, "array") || is(way, "reset-array")) {
    CUDA_ARRAY_DESCRIPTOR array = {
        .Width = 1024, .Height = bytes / 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CHECK(cuArrayCreate(&arrays[step], &array));
  } else if (is(way, "async")) {
    CHECK(cuMemAllocAsync(&address, bytes, 0));
  } else if (is(way, "managed")) {
    CHECK(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
  } else if (!is(way, "create")) {
    CHECK(cuMemAlloc(&address, bytes));
  }
  if (!is(way, "create"))
    return address;
  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  CHECK(cuMemCreate(&handles[step], bytes, &prop, 0));
  CHECK(cuMemMap(address, bytes, 0, handles[step], 0));
  CHECK(cuMemSetAccess(address, bytes, &access, 1));
  /* As many allocators do: the mapping keeps the memory. */
  if (step % 2)
    CHECK(cuMemRelease(handles[step]));
  return address;
}

static void give(const char *way, CUdeviceptr address, size_t bytes, int step) {
  if (is(way, "array"))
    CHECK(cuArrayDestroy(arrays[step]));
  else if (is(way, "async"))
    CHECK(cuMemFreeAsync(address, 0));
  else if (!is(way, "create"))
    CHECK(cuMemFree(address));
  if (!is(way, "create"))
    return;
  CHECK(cuMemUnmap(address, bytes));
  if (step % 2 == 0)
    CHECK(cuMemRelease(handles[step]));
  CHECK(cuMemAddressFree(address, bytes));
}

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  int steps = atoi(argv[2]);
  size_t bytes = (size_t)atoi(argv[3]) << 20;
  CUdevice device;
  CUcontext context;
  CUdeviceptr taken[MOST];
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < steps; i++) {
    unsigned char back[2] = {0, 0};
    taken[i] = take(argv[1], bytes, i);
    if (!taken[i])
      continue;
    CHECK(cuMemsetD8(taken[i], i + 1, bytes));
    CHECK(cuMemcpyDtoH(back, taken[i] + bytes - 2, 2));
    if (back[0] != i + 1 || back[1] != i + 1) {
      puts("FAIL");
      return 1;
    }
  }
  puts("holds");
  fflush(stdout);
  usleep(1000 * atoi(argv[4]));
  if (!strncmp(argv[1], "reset", 5))
    CHECK(cuDevicePrimaryCtxReset(device));
  else
    for (int i = 0; i < steps; i++)
      give(argv[1], taken[i], bytes, i);
  if (is(argv[1], "async"))
    CHECK(cuStreamSynchronize(0));
  puts("freed");
  fflush(stdout);
  char line[16];
  if (!fgets(line, sizeof line, stdin))
    line[0] = 0;
  puts("PASS");
  return 0;
}
