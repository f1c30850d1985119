/* Comes to the driver in ways that were traps for others: traps local|deep|next|threads|fork|exec|late USER. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 32

typedef int (*Use)(int);

static Use user(const char *path, int flags) {
  void *library = dlopen(path, RTLD_NOW | flags);
  if (!library) {
    puts(dlerror());
    _exit(1);
  }
  return (Use)dlsym(library, "use");
}

static Use used;

static void *work(void *number) { return (void *)(long)used((int)(long)number); }

/* By its names, and by RTLD_NEXT behind this program: one function. */
static int next(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  void *other = dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
  return !library || other != library || dlsym(library, "cuMemAlloc_v2") != dlsym(RTLD_NEXT, "cuMemAlloc_v2");
}

static int in_child(const char *path, const char *self) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    if (self)
      execl(self, self, "local", path, NULL);
    _exit(user(path, RTLD_LOCAL)(3));
  }
  return waitpid(pid, &status, 0) != pid || status != 0;
}

/* Children of a process that uses the driver, forked at any moment: they need not get anything from it, but they
   end. */
static int late(const char *path) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  int (*count)(int *) = (int (*)(int *))dlsym(library, "cuDeviceGetCount");
  pthread_t worker;
  used = user(path, RTLD_LOCAL);
  if (used(6))
    return 1;
  for (int round = 0; round < 40; round++) {
    pthread_create(&worker, NULL, work, (void *)1L);
    for (int i = 0; i < 4; i++) {
      int status, devices;
      pid_t pid = fork();
      if (pid == 0) {
        alarm(30);
        init(0);
        count(&devices);
        exit(0);
      }
      usleep(300 * i);
      if (waitpid(pid, &status, 0) != pid || status != 0)
        return 1;
    }
    void *result;
    pthread_join(worker, &result);
    if (result)
      return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const char *way = argv[1], *path = argv[2];
  int failed = 0;
  if (!strcmp(way, "local"))
    failed = user(path, RTLD_LOCAL)(1);
  else if (!strcmp(way, "deep"))
    failed = user(path, RTLD_LOCAL | RTLD_DEEPBIND)(2);
  else if (!strcmp(way, "next"))
    failed = next() || user(path, RTLD_LOCAL)(1);
  else if (!strcmp(way, "late"))
    failed = late(path);
  else if (!strcmp(way, "fork"))
    failed = in_child(path, NULL) || user(path, RTLD_LOCAL)(4);
  else if (!strcmp(way, "exec"))
    /* A child that execs has a driver of its own, though its parent has used one. */
    failed = user(path, RTLD_LOCAL)(5) || in_child(path, argv[0]);
  else {
    pthread_t threads[THREADS];
    used = user(path, RTLD_LOCAL);
    for (long i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
      void *result;
      pthread_join(threads[i], &result);
      failed |= result != NULL;
    }
  }
  puts(failed ? "FAIL" : "PASS");
  return failed;
}
