/* Asks for the driver's functions in every way in which programs do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handle {
  char bytes[64];
};
int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuIpcOpenMemHandle_v2(unsigned long long *, struct handle, unsigned);
int cuTexRefSetMipmapLevelBias(void *, float);
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int cuGetExportTable(const void **, const void *);
int cuMemAlloc_v2(unsigned long long *, size_t);

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) {                                      \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                               \
    }                                                        \
  } while (0)

static void arguments(void) {
  CHECK(cuInit(3) == 0);
  /* Twice: through the search, and straight. */
  for (int i = 0; i < 2; i++) {
    CHECK(cuLaunchKernel((void *)1, 2, 3, 4, 5, 6, 7, 8, (void *)9, (void **)10, (void **)11) == 7);
    struct handle handle = {{1}};
    handle.bytes[63] = 64;
    unsigned long long pointer = 0;
    CHECK(cuIpcOpenMemHandle_v2(&pointer, handle, 1) == 0 && pointer == 42);
    CHECK(cuTexRefSetMipmapLevelBias((void *)5, 0.25f) == 0);
  }
}

/* However a program asks, a function has one address. */
static void addresses(void) {
  void *by_name = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
  CHECK(by_name == (void *)cuLaunchKernel);
  CHECK(dlsym(RTLD_NEXT, "cuLaunchKernel") == by_name);
  int ways[] = {RTLD_LAZY, RTLD_NOW | RTLD_GLOBAL, RTLD_NOW | RTLD_LOCAL, RTLD_NOW | RTLD_DEEPBIND};
  for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
    void *again = dlopen("libcuda.so.1", ways[i]);
    CHECK(again && dlsym(again, "cuLaunchKernel") == by_name);
  }
  void *asked = NULL;
  int status = -1;
  CHECK(cuGetProcAddress_v2("cuLaunchKernel", &asked, 4000, 0, &status) == 0 && status == 0);
  CHECK(asked == by_name);
  CHECK(cuGetProcAddress_v2("cuIpcOpenMemHandle", &asked, 11000, 1, NULL) == 0);
  CHECK(asked == (void *)cuIpcOpenMemHandle_v2);
}

/* A driver that is newer than the table: what the front does not know is the driver's. */
static void newer(void) {
  int (*asked)(void) = NULL;
  CHECK(cuGetProcAddress_v2("cuNewerThanAll", (void **)&asked, 14000, 0, NULL) == 0 && asked() == 99);
  CHECK(cuGetProcAddress_v2("cuNowhere", (void **)&asked, 13000, 0, NULL) == 500);
  const int *table = NULL;
  CHECK(cuGetExportTable((const void **)&table, "an id") == 0 && table[0] == 16 && table[3] == 3);
}

/* A driver that is older than the table. */
static void older(void) {
  unsigned long long pointer;
  CHECK(cuMemAlloc_v2(&pointer, 1) == 500);
  CHECK(cuMemAlloc_v2(&pointer, 1) == 500);
}

static void *start(void *barrier) {
  int version = 0;
  pthread_barrier_wait(barrier);
  return (void *)(long)(cuDriverGetVersion(&version) == 0 && version == 13000);
}

static void threads(void) {
  pthread_t all[32];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 32);
  for (int i = 0; i < 32; i++)
    CHECK(pthread_create(&all[i], NULL, start, &barrier) == 0);
  for (int i = 0; i < 32; i++) {
    void *right;
    pthread_join(all[i], &right);
    CHECK(right);
  }
}

/* Where there is no driver at all. */
static void none(void) {
  CHECK(cuInit(0) == 34);
  void *asked;
  CHECK(cuGetProcAddress_v2("cuInit", &asked, 13000, 0, NULL) != 0);
}

int main(int argc, char **argv) {
  struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"arguments", arguments}, {"addresses", addresses}, {"newer", newer},
               {"older", older},         {"threads", threads},     {"none", none}};
  for (unsigned i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
    if (!strcmp(argv[1], cases[i].name)) {
      cases[i].run();
      puts("PASS");
      return 0;
    }
  }
  puts("no such case");
  return 2;
}
