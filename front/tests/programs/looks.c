/* Looks at the GPUs by NVML, as nvidia-smi and Python's bindings do: prints the UUID of each number, and the number that
   NVML has for its device. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *Device;

static void *library;

static void *function(const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    printf("no %s\n", name);
    exit(1);
  }
  return found;
}

int main(void) {
  library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library) {
    printf("%s\n", dlerror());
    return 1;
  }
  int (*init)(void) = function("nvmlInit_v2");
  int (*get_count)(unsigned *) = function("nvmlDeviceGetCount_v2");
  int (*by_index)(unsigned, Device *) = function("nvmlDeviceGetHandleByIndex_v2");
  int (*get_index)(Device, unsigned *) = function("nvmlDeviceGetIndex");
  int (*get_uuid)(Device, char *, unsigned) = function("nvmlDeviceGetUUID");
  const char *(*text)(int) = function("nvmlErrorString");
  int (*lacking)(void) = function("nvmlDeviceGetBoardId");
  unsigned count = 0;
  int code = init();
  if (code || (code = get_count(&count))) {
    printf("%d %s\n", code, text(code));
    return 1;
  }
  for (unsigned number = 0; number < count; number++) {
    Device device;
    char uuid[96];
    unsigned index = 99;
    if (by_index(number, &device) || get_uuid(device, uuid, sizeof uuid) || get_index(device, &index))
      return 1;
    printf("%u %s\n", index, uuid);
  }
  Device none;
  printf("%d %d\n", by_index(count, &none), lacking());
  return 0;
}
