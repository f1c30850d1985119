// Programs that come by the driver API without being linked with it. One case per argument; every case also holds
// natively.

#include "check.h"
#include <cuda.h>
#include <dlfcn.h>

#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)

__global__ void add(unsigned char *bytes, int value) { bytes[threadIdx.x] += value; }

// Finds a function of the driver.
using Find = void *(*)(const char *name);

// Device 0 is one GPU for both APIs; prints which, and how many there are.
static void place(Find find) {
  auto init = (decltype(&cuInit))find("cuInit");
  auto get_count = (decltype(&cuDeviceGetCount))find("cuDeviceGetCount");
  auto get = (decltype(&cuDeviceGet))find("cuDeviceGet");
  auto get_uuid = (decltype(&cuDeviceGetUuid))find("cuDeviceGetUuid_v2");
  auto retain = (decltype(&cuDevicePrimaryCtxRetain))find("cuDevicePrimaryCtxRetain");
  auto set_current = (decltype(&cuCtxSetCurrent))find("cuCtxSetCurrent");
  auto allocate = (decltype(&cuMemAlloc))find("cuMemAlloc_v2");
  auto set = (decltype(&cuMemsetD8))find("cuMemsetD8_v2");
  int count = 0, runtime_count = 0;
  CUdevice first;
  CUuuid uuid;
  CUcontext context;
  CUdeviceptr memory;
  DRIVER(init(0));
  DRIVER(get_count(&count));
  DRIVER(get(&first, 0));
  DRIVER(get_uuid(&uuid, first));
  DRIVER(retain(&context, first));
  DRIVER(set_current(context));
  DRIVER(allocate(&memory, 64));
  DRIVER(set(memory, 5, 64));
  OK(cudaGetDeviceCount(&runtime_count));
  EXPECT(count == runtime_count);
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(memcmp(&uuid, &properties.uuid, sizeof uuid) == 0);
  unsigned char host[64];
  add<<<1, 64>>>((unsigned char *)memory, 2);
  OK(cudaMemcpy(host, (void *)memory, 64, cudaMemcpyDeviceToHost));
  for (unsigned char byte : host)
    EXPECT(byte == 7);
  printf("%d ", count);
  for (char byte : uuid.bytes)
    printf("%02x", (unsigned char)byte);
  printf("\n");
}

static void loaded() {
  place([](const char *name) {
    static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = dlsym(driver, name);
    EXPECT(found);
    return found;
  });
}

static void asked() {
  place([](const char *name) {
    void *found = nullptr;
    char plain[64];
    strcpy(plain, name);
    if (char *form = strstr(plain, "_v2"))
      *form = 0;
    cudaDriverEntryPointQueryResult result;
    OK(cudaGetDriverEntryPointByVersion(plain, &found, 13000, cudaEnableDefault, &result));
    EXPECT(found && result == cudaDriverEntryPointSuccess);
    return found;
  });
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(loaded), CASE(asked)};
  return play(argc, argv, cases);
}
