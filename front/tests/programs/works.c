/* Uses a GPU once, then gives it work for so long, or none: works busy|idle MS. */
#include "check.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  CUdeviceptr memory;
  begin();
  CHECK(cuMemAlloc(&memory, 4 << 20));
  CHECK(cuMemsetD8(memory, 1, 4 << 20));
  double end = now() + atoi(argv[2]);
  while (now() < end)
    if (strcmp(argv[1], "busy"))
      usleep(10000);
    else
      CHECK(cuMemsetD8(memory, 1, 4 << 20));
  CHECK(cuMemFree(memory));
  puts("PASS");
  return 0;
}
