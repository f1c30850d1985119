/* Sizes what it takes as servers of language models do: it reckons what it has taken from free memory before and
   after, and gives the rest of its share of the total to a cache. profiles SHARE_PERCENT: it says each stage. */
#include "stages.h"

#define MIB ((size_t)1 << 20)

static size_t free_of(size_t *total) {
  size_t left;
  CHECK(cuMemGetInfo(&left, total));
  return left;
}

int main(int argc, char **argv) {
  size_t share = argc > 1 ? strtoul(argv[1], NULL, 10) : 90;
  CUdeviceptr weights, activations, cache, more;
  CUdevice device;
  size_t total, all;
  begin();
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDeviceTotalMem(&all, device));
  size_t before = free_of(&total);
  printf("total %zu %zu MiB, free %zu MiB\n", all / MIB, total / MIB, before / MIB);
  size_t wanted = total / 100 * share;
  if (before < wanted) {
    printf("%zu MiB are free, %zu MiB are wanted\n", before / MIB, wanted / MIB);
    return 1;
  }
  CHECK(cuMemAlloc(&weights, 20 * MIB));
  CHECK(cuMemAlloc(&activations, 10 * MIB));
  stage("profiles");
  size_t after = free_of(&total);
  CHECK(cuMemFree(activations));
  if (after >= before) {
    puts("memory came free while it profiled");
    return 1;
  }
  size_t rest = (wanted - (before - after)) / (2 * MIB) * 2 * MIB;
  printf("used %zu MiB, cache %zu MiB\n", (before - after) / MIB, rest / MIB);
  CHECK(cuMemAlloc(&cache, rest));
  CHECK(cuMemsetD8(cache, 1, rest));
  /* What a GPU of this size has no room for fails, as it does natively. */
  CUresult code = cuMemAlloc(&more, total);
  printf("too much: %d\n", code);
  stage("serves");
  CHECK(cuMemFree(cache));
  CHECK(cuMemFree(weights));
  puts("PASS");
  return 0;
}
