/* A driver that notes what it is called with: built as libcuda.so.1, and found behind the front. It has few of the
   driver's functions, so that calls of the others show what the front does where the driver is older. */
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags) {
  printf("cuInit %u\n", flags);
  return 0;
}

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

/* Eleven arguments: five of them on the stack. */
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **params, void **extra) {
  printf("cuLaunchKernel %p %u %u %u %u %u %u %u %p %p %p\n", f, gx, gy, gz, bx, by, bz, shared, stream, (void *)params,
         (void *)extra);
  return 7;
}

/* A structure passed in memory: CUipcMemHandle has 64 bytes. */
struct handle {
  char bytes[64];
};

int cuIpcOpenMemHandle_v2(unsigned long long *pointer, struct handle handle, unsigned flags) {
  *pointer = 42;
  printf("cuIpcOpenMemHandle_v2 %d %d %u\n", handle.bytes[0], handle.bytes[63], flags);
  return 0;
}

/* Floating point, beside integers. */
int cuTexRefSetMipmapLevelBias(void *reference, float bias) {
  printf("cuTexRefSetMipmapLevelBias %p %.3f\n", reference, bias);
  return 0;
}

static int private_answer(void) {
  return 99;
}

/* What the driver answers by version may be no exported function. */
int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status) {
  *function = NULL;
  if (status)
    *status = 1;
  if (!strcmp(symbol, "cuLaunchKernel"))
    *function = (void *)cuLaunchKernel;
  else if (!strcmp(symbol, "cuIpcOpenMemHandle"))
    *function = (void *)cuIpcOpenMemHandle_v2;
  else if (!strcmp(symbol, "cuNewerThanAll"))
    *function = (void *)private_answer;
  else
    return 500;
  if (status)
    *status = 0;
  printf("cuGetProcAddress_v2 %s %d %llu\n", symbol, version, flags);
  return 0;
}

int cuGetExportTable(const void **table, const void *id) {
  static const int own[] = {16, 1, 2, 3};
  *table = own;
  (void)id;
  return 0;
}
