/* A program in the driver API: memory, copies, two runtimes of the name libcuda.so.1 in one process. */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

int main(void) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr pointer;
  unsigned char bytes[64];
  int count = 0;
  size_t free_bytes, total;
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&count));
  CHECK(cuDeviceGet(&device, count - 1));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&pointer, sizeof bytes));
  CHECK(cuMemGetInfo(&free_bytes, &total));
  CHECK(cuMemsetD8(pointer, 7, sizeof bytes));
  CHECK(cuMemcpyDtoH(bytes, pointer, sizeof bytes));
  /* As libraries that load the driver by themselves do. */
  void *again = dlopen("libcuda.so.1", RTLD_NOW);
  CUresult (*release)(CUdeviceptr) = again ? (CUresult(*)(CUdeviceptr))dlsym(again, "cuMemFree_v2") : NULL;
  if (!release || free_bytes >= total || bytes[0] != 7 || bytes[63] != 7) {
    puts("FAIL");
    return 1;
  }
  CHECK(release(pointer));
  printf("%d devices PASS\n", count);
  return 0;
}
