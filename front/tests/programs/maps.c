/* Memory that a program makes and maps by itself, against a model of each granule: maps DEVICES SEED STEPS. In random
   order it makes memory, maps it whole, its first part, or twice, writes by one mapping and reads by another, gives the
   handle back while it is mapped and gets it again, unmaps, shares with another device, and exports. */
#include "check.h"
#include <string.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)
#define MOST 12
#define PARTS 3

typedef struct {
  CUdeviceptr at;
  int count;
} Map;

typedef struct {
  CUmemGenericAllocationHandle handle;
  int device, parts, handles;
  Map maps[2];
  unsigned char bytes[PARTS];
  int is_written[PARTS];
} Memory;

static Memory all[MOST];
static CUcontext contexts[8];
static int devices;
static unsigned long long state;

static int any(int below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (int)((state >> 33) % (unsigned)below);
}

static int is_mapped(Memory *memory) { return memory->maps[0].count || memory->maps[1].count; }

static int exists(Memory *memory) { return memory->handles || is_mapped(memory); }

static void check(Memory *memory) {
  for (int m = 0; m < 2; m++) {
    Map *map = &memory->maps[m];
    for (int part = 0; part < map->count; part++) {
      unsigned char bytes[64];
      if (!memory->is_written[part])
        continue;
      CHECK(cuCtxSetCurrent(contexts[any(devices)]));
      CHECK(cuMemcpyDtoH(bytes, map->at + part * GRANULE + GRANULE - sizeof bytes, sizeof bytes));
      for (unsigned i = 0; i < sizeof bytes; i++) {
        if (bytes[i] != memory->bytes[part]) {
          printf("FAIL: part %d has %d, not %d\n", part, bytes[i], memory->bytes[part]);
          exit(1);
        }
      }
    }
  }
}

static void make(Memory *memory) {
  memset(memory, 0, sizeof *memory);
  memory->device = any(devices);
  memory->parts = 1 + any(PARTS);
  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->device}};
  if (any(2))
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(cuMemCreate(&memory->handle, memory->parts * GRANULE, &prop, 0));
  memory->handles = 1;
  for (int i = 0; i < MOST; i++) {
    if (&all[i] != memory && all[i].handles && all[i].handle == memory->handle) {
      puts("FAIL: two have one handle");
      exit(1);
    }
  }
  if (prop.requestedHandleTypes && !any(8)) {
    int file;
    CHECK(cuMemExportToShareableHandle(&file, memory->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(file);
  }
}

static void map(Memory *memory, Map *map) {
  map->count = 1 + any(memory->parts);
  size_t bytes = map->count * GRANULE;
  CUmemAccessDesc access[8];
  for (int i = 0; i < devices; i++)
    access[i] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, .id = i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&map->at, bytes, 0, 0, 0));
  CHECK(cuMemMap(map->at, bytes, 0, memory->handle, 0));
  CHECK(cuMemSetAccess(map->at, bytes, access, devices));
}

static void unmap(Map *map) {
  CHECK(cuMemUnmap(map->at, map->count * GRANULE));
  CHECK(cuMemAddressFree(map->at, map->count * GRANULE));
  map->count = 0;
}

static void step(void) {
  Memory *memory = &all[any(MOST)];
  Map *one = &memory->maps[any(2)];
  if (!exists(memory)) {
    make(memory);
    return;
  }
  check(memory);
  switch (any(6)) {
  case 0:
    if (memory->handles && !one->count)
      map(memory, one);
    break;
  case 1:
    if (one->count)
      unmap(one);
    break;
  case 2:
    if (memory->handles) {
      CHECK(cuMemRelease(memory->handle));
      memory->handles--;
    }
    break;
  case 3:
    if (one->count) {
      CUmemGenericAllocationHandle again;
      CHECK(cuMemRetainAllocationHandle(&again, (void *)one->at));
      if (memory->handles && again != memory->handle) {
        puts("FAIL: its handle is another one");
        exit(1);
      }
      memory->handle = again;
      memory->handles++;
    }
    break;
  default:
    if (one->count) {
      int part = any(one->count);
      memory->bytes[part] = (unsigned char)any(256);
      memory->is_written[part] = 1;
      CHECK(cuCtxSetCurrent(contexts[any(devices)]));
      CHECK(cuMemsetD8(one->at + part * GRANULE, memory->bytes[part], GRANULE));
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  devices = atoi(argv[1]);
  state = (unsigned long long)atoll(argv[2]);
  CHECK(cuInit(0));
  for (int i = 0; i < devices; i++)
    CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i));
  for (int i = 0; i < atoi(argv[3]); i++) {
    step();
    if (i % 16 == 0)
      usleep(1000);
  }
  for (int i = 0; i < MOST; i++) {
    Memory *memory = &all[i];
    check(memory);
    for (int m = 0; m < 2; m++) {
      if (memory->maps[m].count)
        unmap(&memory->maps[m]);
    }
    while (memory->handles) {
      CHECK(cuMemRelease(memory->handle));
      memory->handles--;
    }
  }
  /* All of it is free again. */
  for (int i = 0; i < devices; i++) {
    size_t before, after, total;
    CUdeviceptr block;
    CHECK(cuCtxSetCurrent(contexts[i]));
    CHECK(cuMemGetInfo(&before, &total));
    CHECK(cuMemAlloc(&block, before / 2));
    CHECK(cuMemFree(block));
    CHECK(cuMemGetInfo(&after, &total));
    if (after < before) {
      printf("FAIL: %zu bytes are free, not %zu\n", after, before);
      return 1;
    }
  }
  puts("PASS");
  return 0;
}
