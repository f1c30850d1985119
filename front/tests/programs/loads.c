/* A program that uses no GPU, and loads a library that was built with MGB and does: loads LIBRARY. Reads a line before it
   ends. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  char line[16];
  if (argc != 2)
    return 2;
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*take)(size_t) = library ? (int (*)(size_t))dlsym(library, "take") : NULL;
  if (!take || !take(4 << 20)) {
    puts("FAIL");
    return 1;
  }
  puts("holds");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    line[0] = 0;
  puts("PASS");
  return 0;
}
