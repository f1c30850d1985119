/* Allocates memory and then runs another program in its place, or closes all of its files: becomes exec|closes MIB. */
#define _GNU_SOURCE
#include "check.h"
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  CUdeviceptr memory;
  alarm(60);
  if (argc != 3)
    return 2;
  begin();
  CHECK(cuMemAlloc(&memory, (size_t)atoi(argv[2]) << 20));
  if (!strcmp(argv[1], "exec"))
    execlp("sleep", "sleep", "60", NULL);
  closefrom(3);
  sleep(60);
  return 1;
}
