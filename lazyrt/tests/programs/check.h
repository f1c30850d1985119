// What the test programs share: checks that say where and what, and memory that the pass cannot follow.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPECT(condition)                                                                                    \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

#define IS(call, expected)                                                                                   \
  do {                                                                                                       \
    cudaError_t got_ = (call);                                                                               \
    if (got_ != (expected)) {                                                                                \
      fprintf(stderr, "%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(got_),        \
              cudaGetErrorName(expected));                                                                   \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

#define OK(call) IS(call, cudaSuccess)

// Objects whose pointers go through memory that other code may change belong to the lazy task.
struct Box {
  unsigned char *volatile pointer;
  size_t bytes;
};
inline Box boxes[64];

// One case of a program, named for its function.
struct Case {
  const char *name;
  void (*run)();
};
#define CASE(function) {#function, function}

// Runs the case that the program's argument names; what main returns.
template <int N> int play(int argc, char **argv, const Case (&cases)[N]) {
  for (const Case &one : cases)
    if (argc > 1 && strcmp(argv[1], one.name) == 0) {
      one.run();
      printf("%s: PASS\n", one.name);
      return 0;
    }
  fprintf(stderr, "no such case\n");
  return 2;
}
