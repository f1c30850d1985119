/* A driver that knows every function and is no front of the software GPU: nothing but its version may be asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int version(int *version) {
  *version = 13000;
  return 0;
}

static int never(void) {
  fputs("the other driver was called\n", stderr);
  abort();
}

int cuGetProcAddress_v2(const char *symbol, void **function, int wanted, unsigned long long flags, int *status) {
  (void)wanted, (void)flags;
  *function = strcmp(symbol, "cuDriverGetVersion") ? (void *)never : (void *)version;
  *status = 0;
  return 0;
}
