/* A program of several processes: parts MIB [DEVICES...]. It uses its first device, then starts a process for each
   further argument, as a daemon does: with a session of its own and no parent that waits. The argument is the value of
   CUDA_VISIBLE_DEVICES for it, "-" for none. Each prints what its first device is. The first reads a line before it
   ends. */
#include "check.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void use(const char *name, int mib) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory;
  CUuuid uuid;
  char line[128];
  int length = snprintf(line, sizeof line, "%s ", name);
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDeviceGetUuid(&uuid, device));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&memory, (size_t)mib << 20));
  for (int i = 0; i < 16; i++)
    length += snprintf(line + length, sizeof line - length, "%02x", (unsigned char)uuid.bytes[i]);
  /* One write, so that lines of several processes do not mix. */
  puts(line);
  fflush(stdout);
}

static void start(char **argv, char *devices, int *ends) {
  pid_t child = fork();
  if (child) {
    waitpid(child, NULL, 0);
    return;
  }
  setsid();
  if (fork())
    _exit(0);
  close(ends[0]);
  if (strcmp(devices, "-"))
    setenv("CUDA_VISIBLE_DEVICES", devices, 1);
  execl("/proc/self/exe", argv[0], "part", argv[1], devices, (char *)NULL);
  _exit(1);
}

int main(int argc, char **argv) {
  char line[16];
  int ends[2];
  /* A test that hangs fails instead. */
  alarm(60);
  if (argc == 4 && !strcmp(argv[1], "part")) {
    use(argv[3], atoi(argv[2]));
    return 0;
  }
  if (argc < 2 || pipe(ends))
    return 2;
  use("first", atoi(argv[1]));
  for (int i = 2; i < argc; i++)
    start(argv, argv[i], ends);
  close(ends[1]);
  /* Ends once all of them have. */
  while (read(ends[0], line, 1) > 0) {
  }
  puts("all");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    line[0] = 0;
  return 0;
}
