// What goes wrong is said once, with seed, thread and step, and ends the process: what follows would mean nothing.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mutex>
#include <unistd.h>

// Where a thread is.
struct Place {
  uint64_t seed = 0;
  int thread = 0;
  size_t step = 0;
  char op[256] = "";
};

inline thread_local Place place;
// For the watch over hangs: where each thread of the running seed is.
inline Place *places[8] = {};
inline bool tracing = false;

[[noreturn]] inline void fail(const char *format, ...) {
  static std::mutex once;
  once.lock();
  fprintf(stderr, "random: seed=%llu thread=%d step=%zu: %s: ", (unsigned long long)place.seed, place.thread, place.step,
          place.op);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  fflush(nullptr);
  _exit(1);
}

// Says what the thread does next.
inline void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(place.op, sizeof place.op, format, arguments);
  va_end(arguments);
  if (tracing) {
    fprintf(stderr, "%llu/%d/%zu %s\n", (unsigned long long)place.seed, place.thread, place.step, place.op);
    fflush(stderr);
  }
}

// Says how the op is done.
inline void detail(const char *format, ...) {
  if (!tracing)
    return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%llu/%d/%zu     %s\n", (unsigned long long)place.seed, place.thread, place.step, text);
}

#define OK(call)                                                                                                        \
  do {                                                                                                                 \
    cudaError_t code_ = (call);                                                                                        \
    if (code_ != cudaSuccess)                                                                                          \
      fail("%s:%d: %s is %s", strrchr("/" __FILE__, '/') + 1, __LINE__, #call, cudaGetErrorName(code_));               \
  } while (0)
