// What every example needs: checked CUDA calls, arguments, sizes in words, and one last line that says PASS or FAIL.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Every CUDA call goes through CHECK: where it fails, the program says where and why, and exits with 2.
// Out of memory reads "out of memory", CUDA's own words.
#define CHECK(call) check((call), #call, __FILE__, __LINE__)
#define CHECK_LAUNCH() check(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

inline void check(cudaError_t error, const char *call, const char *file, int line) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "%s:%d: %s failed: %s (%s)\n", file, line, call, cudaGetErrorString(error),
          cudaGetErrorName(error));
  exit(2);
}

// Argument `index` as a count, or `fallback` where there is none.
inline size_t count_argument(int argc, char **argv, int index, size_t fallback) {
  if (index >= argc)
    return fallback;
  char *end = nullptr;
  errno = 0;
  unsigned long long value = strtoull(argv[index], &end, 10);
  // strtoull takes "-1" as well, for a very large number.
  if (argv[index][0] < '0' || argv[index][0] > '9' || *end != '\0' || errno != 0) {
    fprintf(stderr, "argument %d: '%s' is no whole number\n", index, argv[index]);
    exit(2);
  }
  return value;
}

// The same where zero makes no sense.
inline size_t positive_argument(int argc, char **argv, int index, size_t fallback) {
  size_t value = count_argument(argc, argv, index, fallback);
  if (value == 0) {
    fprintf(stderr, "argument %d: must be 1 or more\n", index);
    exit(2);
  }
  return value;
}

// A size such as "4096", "12MiB" or "3.61GiB" in bytes.
inline size_t parse_size(const char *text) {
  char *unit = nullptr;
  double value = strtod(text, &unit);
  double scale = 0;
  if (unit == text)
    scale = 0;
  else if (*unit == '\0' || strcmp(unit, "B") == 0)
    scale = 1;
  else if (strcmp(unit, "KiB") == 0)
    scale = 1024.0;
  else if (strcmp(unit, "MiB") == 0)
    scale = 1024.0 * 1024.0;
  else if (strcmp(unit, "GiB") == 0)
    scale = 1024.0 * 1024.0 * 1024.0;
  // Not only where it is negative: "nan" and "1e30GiB" are numbers as well.
  if (!(scale > 0 && value >= 0 && value * scale < 9e18)) {
    fprintf(stderr, "'%s' is no size: write 4096, 12MiB or 3.61GiB\n", text);
    exit(2);
  }
  return static_cast<size_t>(value * scale);
}

// The exit code for a result, after the word that says it. The caller prints "name: what=how-much " first,
// and no times: the output is the same wherever and however the program runs.
inline int report(bool right) {
  printf("%s\n", right ? "PASS" : "FAIL");
  return right ? 0 : 1;
}
