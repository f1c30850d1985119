/* What programs in the driver API share. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                        \
  do {                                                     \
    CUresult code_ = (call);                               \
    if (code_ != CUDA_SUCCESS) {                           \
      printf("%s: %d, line %d\n", #call, code_, __LINE__); \
      exit(1);                                             \
    }                                                      \
  } while (0)

/* The first device's primary context, which is current on this thread from here on. */
static inline CUcontext begin(void) {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  return context;
}
