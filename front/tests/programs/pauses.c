/* Holds device memory through pauses: pauses MIB ROUNDS PAUSE_MS [reset]. Fills it anew in each round, pauses, and
   looks at every byte; with `reset` it pauses again and ends its context with the memory in it. Before that it frees
   2 MiB, which may be kept for its next allocation. */
#include "check.h"
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc != 4 && argc != 5)
    return 2;
  size_t bytes = (size_t)atoi(argv[1]) << 20;
  CUdeviceptr memory;
  unsigned char *back = malloc(bytes);
  begin();
  CUdeviceptr freed;
  CHECK(cuMemAlloc(&freed, 2 << 20));
  CHECK(cuMemAlloc(&memory, bytes));
  CHECK(cuMemFree(freed));
  for (int round = 1; round <= atoi(argv[2]); round++) {
    for (size_t i = 0; i < bytes; i++)
      back[i] = (unsigned char)(i * 7 + i / 4096 + round);
    CHECK(cuMemcpyHtoD(memory, back, bytes));
    CHECK(cuCtxSynchronize());
    usleep(atoi(argv[3]) * 1000);
    memset(back, 0, bytes);
    CHECK(cuMemcpyDtoH(back, memory, bytes));
    for (size_t i = 0; i < bytes; i++)
      if (back[i] != (unsigned char)(i * 7 + i / 4096 + round)) {
        printf("FAIL: byte %zu in round %d\n", i, round);
        return 1;
      }
  }
  if (argc == 5) {
    usleep(atoi(argv[3]) * 1000);
    CHECK(cuDevicePrimaryCtxReset(0));
  } else {
    CHECK(cuMemFree(memory));
  }
  puts("PASS");
  return 0;
}
