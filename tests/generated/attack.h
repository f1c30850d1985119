// What generated programs that attack the pass share (tests/src/generate/attack). A program keeps a model of every word
// beside its device memory and compares both itself; what it prints follows from the model alone.
#pragma once

#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include <pthread.h>
#include <time.h>

#define NEVER_INLINE [[gnu::noinline]]
#define EACH(i, count)                                                                                                 \
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < (count); i += size_t(gridDim.x) * blockDim.x)
#define LAUNCH(kernel, grid, block, stream, ...)                                                                       \
  do {                                                                                                                 \
    kernel<<<grid, block, 0, stream>>>(__VA_ARGS__);                                                                   \
    CHECK(cudaGetLastError());                                                                                         \
  } while (0)
#define CHECK(call) check((call), #call, __LINE__)
#define BYTES(count) ((count) * sizeof(unsigned))

NEVER_INLINE inline void fail(int line, const char *call, const char *what) {
  printf("line %d: %s: %s\n", line, call, what);
  fflush(stdout);
  _Exit(2);
}
inline void check(cudaError_t code, const char *call, int line) {
  if (code != cudaSuccess)
    fail(line, call, cudaGetErrorName(code));
}

// A value that the compiler cannot see through.
template <class T> NEVER_INLINE T hidden(T value) {
  volatile T kept = value;
  return kept;
}

// Thrown where a program's fuse has burnt down.
struct Thrown {};

// Microseconds that a program idles at each step, so that its memory can leave the GPU there.
inline unsigned pause_us = 0;

NEVER_INLINE inline void idle() {
  if (pause_us > 0) {
    timespec time = {0, long(pause_us) * 1000};
    nanosleep(&time, nullptr);
  }
}

// What device memory must hold.
struct Model {
  std::vector<unsigned> words;
  explicit Model(size_t count = 0) : words(count) {}
  unsigned *data() { return words.data(); }
  size_t size() const { return words.size(); }
  NEVER_INLINE void set(int byte) { memset(words.data(), byte, BYTES(size())); }
  NEVER_INLINE void sow(unsigned k) {
    for (size_t i = 0; i < size(); i++)
      words[i] = unsigned(i) * k + 7;
  }
  NEVER_INLINE void stir(unsigned k, size_t first = 0, size_t count = ~size_t(0)) {
    for (size_t i = first; i < size() && i - first < count; i++)
      words[i] = words[i] * 2654435761u + k;
  }
  NEVER_INLINE void blend(const Model &from) {
    for (size_t i = 0; i < size(); i++)
      words[i] = words[i] * 5 + from.words[i % from.size()];
  }
  NEVER_INLINE void copy(const Model &from, size_t count) { memmove(words.data(), from.words.data(), BYTES(count)); }
};

static __global__ void stir(unsigned *w, size_t n, unsigned k) { EACH(i, n) w[i] = w[i] * 2654435761u + k; }
static __global__ void blend(unsigned *to, const unsigned *from, size_t n) { EACH(i, n) to[i] = to[i] * 5 + from[i]; }
static __global__ void sow(unsigned *w, size_t n, unsigned k) { EACH(i, n) w[i] = unsigned(i) * k + 7; }
// Takes its time, and does nothing to `w`, which must have a word that is not 42.
static __global__ void linger(unsigned *w, int rounds) {
  unsigned x = w[0];
  for (int r = 0; r < rounds; r++)
    x = x * 3 + unsigned(r);
  if (x == 42 && w[0] == 42)
    w[0] = 43;
}

struct View {
  unsigned *words;
  size_t count;
};
static __global__ void viewed(View to, View from) { EACH(i, to.count) to.words[i] = to.words[i] * 5 + from.words[i]; }

// A program's answer: a hash of all models that were compared with device memory.
struct Answer {
  unsigned value = 2166136261u;
  // Steps until an exception; 0: none comes.
  int fuse = 0;
  NEVER_INLINE void step() {
    idle();
    if (fuse > 0 && --fuse == 0)
      throw Thrown{};
  }
  NEVER_INLINE void add(unsigned word) { value = (value ^ word) * 16777619u; }
  NEVER_INLINE void compare(const unsigned *seen, const Model &model, int line) {
    for (size_t i = 0; i < model.size(); i++) {
      if (seen[i] != model.words[i]) {
        char what[100];
        snprintf(what, sizeof what, "word %zu is %08x and must be %08x", i, seen[i], model.words[i]);
        fail(line, "compare", what);
      }
      value = (value ^ model.words[i]) * 16777619u;
    }
  }
  NEVER_INLINE void expect(bool holds, const char *what, int line) {
    if (!holds)
      fail(line, what, "does not hold");
  }
};
#define EXPECT(condition) answer.expect((condition), #condition, __LINE__)

// Compares device memory with its model.
inline void see(Answer &answer, const unsigned *words, const Model &model, int line) {
  std::vector<unsigned> host(model.size());
  CHECK(cudaMemcpy(host.data(), words, BYTES(model.size()), cudaMemcpyDeviceToHost));
  answer.compare(host.data(), model, line);
}
#define SEE(words, model) see(answer, words, model, __LINE__)

// Device memory that goes with its owner.
struct Owner {
  unsigned *words = nullptr;
  explicit Owner(size_t count) { CHECK(cudaMalloc(&words, BYTES(count))); }
  Owner(Owner &&other) noexcept : words(std::exchange(other.words, nullptr)) {}
  Owner &operator=(Owner &&other) noexcept {
    std::swap(words, other.words);
    return *this;
  }
  ~Owner() { cudaFree(words); }
};

// A coroutine that others resume, from any thread.
struct Routine {
  struct promise_type {
    Routine get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

// Runs `f` in a thread of its own, to its end.
template <class F> void in_thread(F &&f) {
  pthread_t thread;
  auto run = [](void *at) -> void * {
    (*static_cast<std::remove_reference_t<F> *>(at))();
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, run, &f) != 0)
    fail(__LINE__, "pthread_create", "no thread");
  pthread_join(thread, nullptr);
}

// Runs `count` functions in threads at once.
template <class F> void in_threads(int count, F &&f) {
  struct One {
    std::remove_reference_t<F> *f;
    int number;
    pthread_t thread;
  };
  std::vector<One> all(count);
  auto run = [](void *at) -> void * {
    auto *one = static_cast<One *>(at);
    (*one->f)(one->number);
    return nullptr;
  };
  for (int i = 0; i < count; i++) {
    all[i].f = &f, all[i].number = i;
    if (pthread_create(&all[i].thread, nullptr, run, &all[i]) != 0)
      fail(__LINE__, "pthread_create", "no thread");
  }
  for (One &one : all)
    pthread_join(one.thread, nullptr);
}

// `program [--pause MICROSECONDS] [NUMBER...]`: all programs, or those named.
template <size_t N> int play(int argc, char **argv, unsigned (*const (&programs)[N])()) {
  std::vector<size_t> asked;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--pause") == 0 && i + 1 < argc)
      pause_us = unsigned(atoi(argv[++i]));
    else
      asked.push_back(size_t(atoi(argv[i])) % N);
  }
  if (asked.empty())
    for (size_t i = 0; i < N; i++)
      asked.push_back(i);
  for (size_t number : asked) {
    unsigned value = programs[number]();
    printf("p%zu %08x\n", number, value);
    fflush(stdout);
  }
  return 0;
}
