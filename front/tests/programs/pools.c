/* Allocates from pools that are not the device's own: pools host|other|ended MIB. */
#include "stages.h"

static CUmemoryPool pool_at(CUmemLocationType kind, int id) {
  CUmemoryPool pool;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = kind, .id = id}};
  CHECK(cuMemPoolCreate(&pool, &props));
  return pool;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  size_t bytes = (size_t)atoi(argv[2]) << 20;
  CUdeviceptr address;
  CUmemoryPool pool;
  begin();
  if (is(argv[1], "host"))
    pool = pool_at(CU_MEM_LOCATION_TYPE_HOST, 0);
  else
    pool = pool_at(CU_MEM_LOCATION_TYPE_DEVICE, is(argv[1], "other"));
  CHECK(cuMemAllocFromPoolAsync(&address, bytes, pool, 0));
  CHECK(cuStreamSynchronize(0));
  stage("taken");
  if (is(argv[1], "ended"))
    CHECK(cuMemPoolDestroy(pool));
  stage("destroyed");
  CHECK(cuMemFreeAsync(address, 0));
  CHECK(cuStreamSynchronize(0));
  if (!is(argv[1], "ended"))
    CHECK(cuMemPoolDestroy(pool));
  stage("freed");
  puts("PASS");
  return 0;
}
