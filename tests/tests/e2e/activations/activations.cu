// Functions that are active several times at once, each time with objects and a task of its own.
//
//   activations CASE

#include <atomic>
#include <coroutine>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <ucontext.h>
#include <vector>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t error_ = (call);                                                                                       \
    if (error_ != cudaSuccess) {                                                                                       \
      printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_));                                          \
      fflush(stdout);                                                                                                  \
      _Exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)
#define EXPECT(is)                                                                                                     \
  do {                                                                                                                 \
    if (!(is)) {                                                                                                       \
      printf("line %d: not so: %s\n", __LINE__, #is);                                                                  \
      fflush(stdout);                                                                                                  \
      _Exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)

__global__ void fill(int *values, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = value + i;
}
__global__ void add(int *values, const int *others, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] += others[i];
}
static void launch_fill(int *values, int count, int value) { fill<<<(count + 255) / 256, 256>>>(values, count, value); }

// Time for memory to be evicted.
static void let_leave() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

struct Coroutine {
  struct promise_type {
    Coroutine get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

// Suspends between any two calls of CUDA.
static Coroutine steps(int count, int value, bool twice) {
  std::vector<int> host(count);
  int *one, *other;
  OK(cudaMalloc(&one, count * sizeof(int)));
  co_await std::suspend_always{};
  OK(cudaMalloc(&other, count * sizeof(int)));
  co_await std::suspend_always{};
  launch_fill(one, count, value);
  co_await std::suspend_always{};
  launch_fill(other, count, 2 * value);
  co_await std::suspend_always{};
  add<<<(count + 255) / 256, 256>>>(one, other, count);
  if (twice) {
    co_await std::suspend_always{};
    add<<<(count + 255) / 256, 256>>>(one, other, count);
  }
  co_await std::suspend_always{};
  OK(cudaMemcpy(host.data(), one, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i++)
    EXPECT(host[i] == value + i + (1 + twice) * (2 * value + i));
  OK(cudaFree(one));
  co_await std::suspend_always{};
  OK(cudaFree(other));
}

// Several coroutines of one thread, in changing order.
static void coroutines() {
  for (int round = 0; round < 4; round++) {
    std::vector<Coroutine> all;
    for (int i = 0; i < 5; i++)
      all.push_back(steps(20000 + 100 * i, 7 * i, i % 2));
    for (int turn = 0, left = 1; left; turn++) {
      left = 0;
      for (size_t i = 0; i < all.size(); i++)
        if (!all[i].handle.done()) {
          left = 1;
          if ((turn + i) % 3)
            all[i].handle.resume();
        }
      let_leave();
    }
    for (Coroutine &one : all)
      one.handle.destroy();
  }
}

// Each step of a coroutine on another thread.
static void hopping() {
  for (int i = 0; i < 4; i++) {
    Coroutine one = steps(15000, i, true);
    while (!one.handle.done()) {
      std::thread([&] { one.handle.resume(); }).join();
      let_leave();
    }
    one.handle.destroy();
  }
}

// Coroutines that are destroyed half-way leave nothing to those that come later. What they allocated is lost.
static void abandoned() {
  for (int step = 1; step < 8; step++) {
    Coroutine one = steps(10000, 1, true), other = steps(10000, 5, true);
    for (int i = 0; i < step; i++) {
      one.handle.resume();
      other.handle.resume();
      let_leave();
    }
    one.handle.destroy();
    while (!other.handle.done()) {
      other.handle.resume();
      let_leave();
    }
    other.handle.destroy();
  }
}

// A function on two stacks.
static ucontext_t main_context, fiber_contexts[2];
static bool fiber_done[2];
static void yield(int fiber) { swapcontext(&fiber_contexts[fiber], &main_context); }
static void on_fiber(int fiber) {
  int count = 12000 + fiber, *values;
  std::vector<int> host(count);
  OK(cudaMalloc(&values, count * sizeof(int)));
  yield(fiber);
  launch_fill(values, count, fiber);
  yield(fiber);
  add<<<(count + 255) / 256, 256>>>(values, values, count);
  yield(fiber);
  OK(cudaMemcpy(host.data(), values, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i++)
    EXPECT(host[i] == 2 * (fiber + i));
  OK(cudaFree(values));
  fiber_done[fiber] = true;
  yield(fiber);
}
static void fibers() {
  static char stacks[2][1 << 18];
  for (int round = 0; round < 3; round++) {
    for (int fiber = 0; fiber < 2; fiber++) {
      fiber_done[fiber] = false;
      getcontext(&fiber_contexts[fiber]);
      fiber_contexts[fiber].uc_stack.ss_sp = stacks[fiber];
      fiber_contexts[fiber].uc_stack.ss_size = sizeof stacks[fiber];
      fiber_contexts[fiber].uc_link = &main_context;
      makecontext(&fiber_contexts[fiber], reinterpret_cast<void (*)()>(on_fiber), 1, fiber);
    }
    for (int turn = 0; !fiber_done[0] || !fiber_done[1]; turn++) {
      if (!fiber_done[turn % 2])
        swapcontext(&main_context, &fiber_contexts[turn % 2]);
      let_leave();
    }
  }
}

// By way of each other, and of a function that is only known at run time.
static __attribute__((noinline)) int odd(int depth);
static __attribute__((noinline)) int even(int depth) {
  if (depth <= 0)
    return 0;
  int *values, last = 0;
  OK(cudaMalloc(&values, 5000 * sizeof(int)));
  int deeper = odd(depth - 1);
  launch_fill(values, 5000, depth);
  int more = depth % 3 ? odd(depth - 2) : 0;
  let_leave();
  OK(cudaMemcpy(&last, values + 4999, sizeof last, cudaMemcpyDeviceToHost));
  OK(cudaFree(values));
  return last - 4999 + deeper + more;
}
static __attribute__((noinline)) int odd(int depth) { return depth > 0 ? even(depth) : 0; }
static int sum_of(int depth) { return depth <= 0 ? 0 : depth + sum_of(depth - 1) + (depth % 3 ? sum_of(depth - 2) : 0); }
static void mutual() {
  for (int i = 0; i < 3; i++)
    EXPECT(even(6) == sum_of(6));
}

static std::function<int(int)> call_back;
static __attribute__((noinline)) int calls_back(int depth) {
  int *values, last = 0;
  OK(cudaMalloc(&values, 3000 * sizeof(int)));
  int deeper = depth > 1 ? call_back(depth - 1) : 0;
  launch_fill(values, 3000, depth);
  deeper += depth > 1 ? call_back(depth - 1) : 0;
  let_leave();
  OK(cudaMemcpy(&last, values, sizeof last, cudaMemcpyDeviceToHost));
  OK(cudaFree(values));
  return last + deeper;
}
static void callbacks() {
  call_back = calls_back;
  EXPECT(calls_back(4) == 4 + 2 * 3 + 4 * 2 + 8 * 1);
}

// Activations that never come to their begin, thousands of them: they return early, or throw.
static __attribute__((noinline)) int early(int count, int way) {
  int *values, last = 0;
  OK(cudaMalloc(&values, count * sizeof(int)));
  if (way == 1) {
    OK(cudaFree(values));
    return 0;
  }
  if (way == 2) {
    OK(cudaFree(values));
    throw way;
  }
  launch_fill(values, count, way);
  OK(cudaMemcpy(&last, values, sizeof last, cudaMemcpyDeviceToHost));
  OK(cudaFree(values));
  return last;
}
static void returns_early() {
  for (int i = 0; i < 3000; i++) {
    bool thrown = false;
    try {
      EXPECT(early(1000, i % 3 == 0 ? 1 : 2) == 0);
    } catch (int) {
      thrown = true;
    }
    EXPECT(thrown == (i % 3 != 0));
    if (i % 300 == 0)
      EXPECT(early(1000, 3) == 3);
  }
}

// Control comes back into a function by longjmp: its task begins again, with the objects that it has.
static jmp_buf back;
static __attribute__((noinline)) void jump() { longjmp(back, 1); }
static __attribute__((noinline)) int jumps(int count) {
  int *values, last = 0;
  volatile int rounds = 0;
  OK(cudaMalloc(&values, count * sizeof(int)));
  int *volatile kept = values;
  setjmp(back);
  if (rounds == 0)
    launch_fill(kept, count, 9);
  else
    add<<<(count + 255) / 256, 256>>>(kept, kept, count);
  let_leave();
  rounds = rounds + 1;
  if (rounds < 4)
    jump();
  OK(cudaMemcpy(&last, kept, sizeof last, cudaMemcpyDeviceToHost));
  OK(cudaFree(kept));
  return last;
}
static void longjmps() {
  for (int i = 0; i < 3; i++)
    EXPECT(jumps(9000) == 9 * 8);
}

int main(int, char **arguments) {
  struct {
    const char *name;
    void (*run)();
  } cases[] = {{"coroutines", coroutines}, {"hopping", hopping},     {"abandoned", abandoned},
               {"fibers", fibers},         {"mutual", mutual},       {"callbacks", callbacks},
               {"early", returns_early},   {"longjmps", longjmps}};
  for (auto &one : cases)
    if (std::string(arguments[1]) == one.name) {
      one.run();
      OK(cudaGetLastError());
      printf("PASS\n");
      return 0;
    }
  return 1;
}
