/* Allocates what is not there, and handles signals meanwhile: waits MIB. Prints what the allocation answers, and
   whether the handler has run; then it allocates a little. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t handled, user;

static void handle(int number) {
  if (number == SIGUSR1)
    user = 1;
  else
    handled = number;
}

int main(int argc, char **argv) {
  CUdeviceptr memory, little;
  struct sigaction before, action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  /* A test that hangs fails instead. */
  alarm(60);
  if (argc != 2)
    return 2;
  begin();
  for (const int *number = (int[]){SIGINT, SIGTERM, SIGHUP, SIGUSR1, 0}; *number; number++)
    sigaction(*number, &action, NULL);
  CUresult code = cuMemAlloc(&memory, (size_t)atoi(argv[1]) << 20);
  printf("allocation %d, signal %d, user's %d\n", code, (int)handled, (int)user);
  sigaction(SIGTERM, NULL, &before);
  if (before.sa_handler != handle)
    puts("FAIL: another handler");
  CHECK(cuMemAlloc(&little, 1 << 20));
  puts("PASS");
  return 0;
}
