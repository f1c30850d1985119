/* Begins, and allocates later: late MIB. Says "begun", reads a line, allocates, says "held" or "refused", and reads a
   line before it ends. */
#include "check.h"
#include <unistd.h>

static void say(const char *what) {
  char line[16];
  puts(what);
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    exit(0);
}

int main(int argc, char **argv) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory;
  /* A test that hangs fails instead. */
  alarm(60);
  if (argc != 2)
    return 2;
  size_t bytes = (size_t)atoi(argv[1]) << 20;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  say("begun");
  say(bytes == 0 || cuMemAlloc(&memory, bytes) == CUDA_SUCCESS ? "held" : "refused");
  return 0;
}
