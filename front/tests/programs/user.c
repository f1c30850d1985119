/* A library that uses the driver: reached by dlopen. */
#include "check.h"
#include <string.h>

int use(int number) {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  for (int turn = 0; turn < 20; turn++) {
    size_t bytes = turn % 2 ? 3 << 20 : 5000;
    unsigned char back[5000];
    CUdeviceptr memory, base;
    size_t size;
    CHECK(cuMemAlloc(&memory, bytes));
    CHECK(cuMemsetD8(memory, number + turn, bytes));
    CHECK(cuMemGetAddressRange(&base, &size, memory + 4999));
    if (base != memory || size != bytes)
      return 1;
    CHECK(cuMemcpyDtoH(back, memory + bytes - sizeof back, sizeof back));
    for (size_t i = 0; i < sizeof back; i++)
      if (back[i] != (unsigned char)(number + turn))
        return 1;
    if (turn % 3)
      CHECK(cuMemFree(memory));
    else
      CHECK(cuMemFreeAsync(memory, 0));
  }
  CHECK(cuDevicePrimaryCtxRelease(device));
  return 0;
}
