/* Works while its GPU fails, and checks nothing. Ends with 0, as the argument says:
   careless ends     by itself
   careless resets   after a reset of the device
   careless begins   after a reset, behind which it begins anew, where everything works */
#include "check.h"
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  CUdeviceptr memory;
  CUcontext context;
  if (argc != 2)
    return 2;
  begin();
  CHECK(cuMemAlloc(&memory, 4 << 20));
  usleep(300000);
  cuMemsetD8(memory, 1, 4 << 20);
  cuCtxSynchronize();
  if (strcmp(argv[1], "ends"))
    CHECK(cuDevicePrimaryCtxReset(0));
  if (!strcmp(argv[1], "begins")) {
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&memory, 4 << 20));
    CHECK(cuMemsetD8(memory, 1, 4 << 20));
    CHECK(cuCtxSynchronize());
  }
  puts("PASS");
  return 0;
}
