/* Allocates memory on its first two devices, and prints what each allocation came to. */
#include "check.h"

int main(void) {
  CHECK(cuInit(0));
  for (int number = 0; number < 2; number++) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr address;
    CHECK(cuDeviceGet(&device, number));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    printf("%d\n", cuMemAlloc(&address, 4 << 20));
  }
  return 0;
}
