// What the workloads share: arguments, checked CUDA calls, where the time goes, random input, checksums, the last line.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

// Every CUDA call goes through CHECK: where it fails, the program says which function and which error, and exits with 3.
#define CHECK(call) check_cuda((call), #call)
#define CHECK_LAUNCH(kernel) check_cuda(cudaGetLastError(), "launch of " #kernel "(")

inline void check_cuda(cudaError_t error, const char *call) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "%.*s failed: %s (%s)\n", int(strcspn(call, "(")), call, cudaGetErrorName(error),
          cudaGetErrorString(error));
  exit(3);
}

// A number of a program's own beside those that all have: `--blocks N`.
struct Extra {
  const char *name;
  size_t *value;
};

struct Options {
  const char *name;
  size_t bytes;       // device memory to take in all
  size_t steps;       // iterations; what one is, each program says
  unsigned seed = 1;  // of the input
  bool profile = false;
  const char *output = "/dev/null"; // where a program writes its result: formatting is work, a disk is not the matter here
};

[[noreturn]] inline void usage_error(const char *name, const char *what, const char *text) {
  fprintf(stderr, "%s: %s: '%s'\nusage: %s SIZE [--steps N] [--seed N] [--profile] [--output FILE], SIZE as 100MiB or 4GiB\n",
          name, what, text, name);
  exit(2);
}

inline size_t whole_number(const char *name, const char *text) {
  char *end = nullptr;
  unsigned long long value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || value == 0)
    usage_error(name, "no whole number above 0", text);
  return value;
}

inline size_t size_in_bytes(const char *name, const char *text) {
  char *unit = nullptr;
  double value = strtod(text, &unit);
  double scale = 0;
  if (*unit == '\0')
    scale = 1;
  else if (strcmp(unit, "KiB") == 0)
    scale = 1024.0;
  else if (strcmp(unit, "MiB") == 0)
    scale = 1024.0 * 1024.0;
  else if (strcmp(unit, "GiB") == 0)
    scale = 1024.0 * 1024.0 * 1024.0;
  // Not only where it is negative: "nan" and "1e30GiB" are numbers as well.
  if (unit == text || !(scale > 0 && value > 0 && value * scale < 1e15))
    usage_error(name, "no size", text);
  return size_t(value * scale);
}

inline Options read_options(int argc, char **argv, const char *name, size_t steps, std::initializer_list<Extra> extras = {}) {
  Options options;
  options.name = name;
  options.steps = steps;
  if (argc < 2)
    usage_error(name, "SIZE is missing", "");
  options.bytes = size_in_bytes(name, argv[1]);
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--profile") == 0) {
      options.profile = true;
      continue;
    }
    if (i + 1 == argc)
      usage_error(name, "unknown, or its value is missing", argv[i]);
    const char *option = argv[i++], *value = argv[i];
    bool known = true;
    if (strcmp(option, "--steps") == 0)
      options.steps = whole_number(name, value);
    else if (strcmp(option, "--seed") == 0)
      options.seed = unsigned(whole_number(name, value));
    else if (strcmp(option, "--output") == 0)
      options.output = value;
    else
      known = false;
    for (const Extra &extra : extras)
      if (strcmp(option, extra.name) == 0) {
        *extra.value = whole_number(name, value);
        known = true;
      }
    if (!known)
      usage_error(name, "unknown option", option);
  }
  srand(options.seed);
  return options;
}

// Which memory a SIZE has room for is each program's to say.
inline void require(const Options &options, bool enough) {
  if (!enough)
    usage_error(options.name, "SIZE is too small", "");
}

inline void *host_memory(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory == nullptr) {
    fprintf(stderr, "failed to allocate %zu bytes of host memory\n", bytes);
    exit(4);
  }
  return memory;
}

// Host memory as it comes from malloc: its first use is paid by who writes first, as in C programs.
template <typename T> class HostArray {
public:
  explicit HostArray(size_t count) : memory(static_cast<T *>(host_memory(count * sizeof(T)))) {}
  ~HostArray() { free(memory); }
  HostArray(const HostArray &) = delete;
  HostArray &operator=(const HostArray &) = delete;
  T &operator[](size_t i) { return memory[i]; }
  const T &operator[](size_t i) const { return memory[i]; }
  T *data() { return memory; }

private:
  T *memory;
};

// A uniform number in [0, 1), a call of rand() each, as the programs these are modelled on make their input.
inline float uniform() { return float(rand()) / (float(RAND_MAX) + 1.0f); }

// 31 bits are too few for an index into what fits on a GPU.
inline size_t random_below(size_t bound) { return ((uint64_t(rand()) << 31) ^ uint64_t(rand())) % bound; }

// Where the time goes: every moment belongs to the phase entered last. Work on the GPU is counted because each program
// waits for its kernels before it enters another phase.
class Profile {
public:
  void start() { enter(0); }                // the first CUDA calls: driver, context
  void host() { enter(1); }                 // input, reference, output, and what the host computes between kernels
  void memory() { enter(2); }               // allocating and freeing device and pinned memory
  void copy_in(size_t bytes) { enter(3), in += bytes; }
  void copy_out(size_t bytes) { enter(3), out += bytes; }
  void kernels() { enter(4); }

  // One line of JSON, in seconds and bytes, to standard output.
  void print(const Options &options) {
    enter(1);
    printf("{\"program\":\"%s\",\"bytes\":%zu,\"steps\":%zu,\"start_s\":%.6f,\"host_s\":%.6f,\"memory_s\":%.6f,"
           "\"copies_s\":%.6f,\"kernels_s\":%.6f,\"bytes_in\":%zu,\"bytes_out\":%zu}\n",
           options.name, options.bytes, options.steps, seconds[0], seconds[1], seconds[2], seconds[3], seconds[4], in, out);
  }

private:
  using Clock = std::chrono::steady_clock;

  void enter(int next) {
    Clock::time_point now = Clock::now();
    seconds[phase] += std::chrono::duration<double>(now - since).count();
    since = now;
    phase = next;
  }

  Clock::time_point since = Clock::now();
  int phase = 1;
  double seconds[5] = {};
  size_t in = 0, out = 0;
};

// FNV-1a over whole numbers. Numbers that a GPU may round otherwise than another go in rounded to a coarse unit.
class Checksum {
public:
  void add(uint64_t value) {
    for (int byte = 0; byte < 8; byte++)
      hash = (hash ^ (value >> 8 * byte & 255)) * 16777619u;
  }
  void add_rounded(double value, double unit) { add(uint64_t(llround(value / unit))); }
  uint32_t value() const { return hash; }

private:
  uint32_t hash = 2166136261u;
};

inline bool near(double value, double expected, double tolerance) {
  // Not a comparison that a NaN would pass.
  return fabs(value - expected) <= tolerance * (1.0 + fabs(expected));
}

// What a check found first. The program goes on to its end, and fails there.
class Verdict {
public:
  void expect(const char *what, size_t index, double value, double expected, double tolerance) {
    if (!wrong && !near(value, expected, tolerance)) {
      wrong = true;
      snprintf(message, sizeof message, "%s %zu is %.9g, expected %.9g", what, index, value, expected);
    }
  }
  void expect_that(const char *what, size_t index, bool holds) {
    if (!wrong && !holds) {
      wrong = true;
      snprintf(message, sizeof message, "%s at %zu does not hold", what, index);
    }
  }

  // The line of the result; its value is the exit code.
  int finish(const Options &options, Profile &profile, const Checksum &checksum) {
    if (options.profile)
      profile.print(options);
    if (wrong) {
      fprintf(stderr, "%s: wrong: %s\n", options.name, message);
      return 1;
    }
    printf("%s: ok, checksum %08X\n", options.name, checksum.value());
    return 0;
  }

private:
  bool wrong = false;
  char message[200] = "";
};
