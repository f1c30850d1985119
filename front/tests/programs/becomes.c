/* Allocates memory and then runs another program in its place, or closes all of its files: becomes exec|closes MIB FILE.
   It does so once there is such a file. */
#define _GNU_SOURCE
#include "check.h"
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  CUdeviceptr memory;
  alarm(60);
  if (argc != 4)
    return 2;
  begin();
  CHECK(cuMemAlloc(&memory, (size_t)atoi(argv[2]) << 20));
  while (access(argv[3], F_OK))
    usleep(1000);
  if (!strcmp(argv[1], "exec"))
    execlp("sleep", "sleep", "60", NULL);
  closefrom(3);
  sleep(60);
  return 1;
}
