/* Programs that a test looks at stage by stage: each stage is printed, and the program goes on once it is told to. */
#include "check.h"
#include <string.h>

static inline void stage(const char *name) {
  char line[16];
  puts(name);
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin))
    exit(3);
}

static inline int is(const char *way, const char *name) { return !strcmp(way, name); }
