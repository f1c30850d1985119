// Loops whose iterations use objects of earlier ones.
//
//   kept CASE

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t error_ = (call);                                                                                       \
    if (error_ != cudaSuccess) {                                                                                       \
      printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_));                                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)
#define EXPECT(is)                                                                                                     \
  do {                                                                                                                 \
    if (!(is)) {                                                                                                       \
      printf("line %d: not so: %s\n", __LINE__, #is);                                                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

__global__ void put(int *at, int value) { at[threadIdx.x] = value; }
__global__ void step(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x] + 1; }

static int read(const int *at) {
  int value = 0;
  OK(cudaMemcpy(&value, at + 31, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}
// Time for memory to be evicted.
static void let_leave() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// A workspace that grows on demand.
static void workspace() {
  struct Workspace {
    char *memory = nullptr;
    size_t capacity = 0;
    int *get(size_t bytes) {
      if (bytes > capacity) {
        if (memory)
          OK(cudaFree(memory));
        OK(cudaMalloc(&memory, bytes));
        capacity = bytes;
      }
      return reinterpret_cast<int *>(memory);
    }
    ~Workspace() { cudaFree(memory); }
  } all;
  for (int i = 0; i < 40; i++) {
    size_t bytes = size_t(i % 10 == 0 ? 8 + i / 2 : 3) << 20;
    int *here = all.get(bytes);
    put<<<1, 32>>>(here, i);
    let_leave();
    EXPECT(read(here) == i);
  }
}

// Buffers that the first iteration makes, and all swap.
static void first() {
  int *from = nullptr, *to = nullptr;
  for (int i = 0; i < 30; i++) {
    if (i == 0) {
      OK(cudaMalloc(&from, 200000));
      OK(cudaMalloc(&to, 200000));
      OK(cudaMemset(from, 0, 200000));
    }
    step<<<1, 32>>>(from, to);
    std::swap(from, to);
    let_leave();
    EXPECT(read(from) == i + 1);
  }
  OK(cudaFree(from));
  OK(cudaFree(to));
}

// A history of buffers, one in each iteration, until a result says that it is enough.
static void history() {
  int *all[20], used = 0;
  for (int i = 0; i < 20; i++) {
    OK(cudaMalloc(&all[i], 1 << 20));
    used = i + 1;
    if (i == 0)
      put<<<1, 32>>>(all[0], 1);
    else
      step<<<1, 32>>>(all[i - 1], all[i]);
    let_leave();
    if (read(all[i]) >= 16)
      break;
  }
  EXPECT(used == 16);
  for (int i = 0; i < used; i++)
    OK(cudaFree(all[i]));
}

// The object of the iteration before is used, and freed after that.
static void previous() {
  int *last = nullptr, *here = nullptr;
  for (int i = 0; i < 30; i++) {
    OK(cudaMalloc(&here, 300000));
    if (last)
      step<<<1, 32>>>(last, here);
    else
      put<<<1, 32>>>(here, 1);
    let_leave();
    if (last)
      OK(cudaFree(last));
    last = here;
    EXPECT(read(last) == i + 1);
  }
  OK(cudaFree(last));
}

// An iteration that throws leaves its object to the next one.
static void thrown() {
  int *at = nullptr, value = 0;
  for (int i = 0; i < 40; i++)
    try {
      if (!at) {
        OK(cudaMalloc(&at, 100000));
        put<<<1, 32>>>(at, value);
      } else {
        step<<<1, 32>>>(at, at);
        value++;
      }
      let_leave();
      EXPECT(read(at) == value);
      if (i % 5 != 4)
        throw std::runtime_error("again");
      OK(cudaFree(at));
      at = nullptr;
    } catch (const std::runtime_error &) {
    }
  cudaFree(at);
}

// An allocation that fails leaves null, not the address of an earlier object.
static void failing() {
  int *at = nullptr;
  size_t pitch;
  for (int i = 0; i < 10; i++) {
    volatile size_t bytes = size_t(1) << 50;
    OK(cudaMalloc(&at, 100000));
    int *first = at;
    EXPECT(cudaMalloc(&at, bytes) == cudaErrorMemoryAllocation && !at);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    at = first;
    EXPECT(cudaMallocPitch(&at, &pitch, bytes >> 20, 1 << 20) == cudaErrorMemoryAllocation && !at);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    OK(cudaFree(first));
  }
}

// Objects that are lost in each iteration, which none uses again.
static void lost() {
  for (int i = 0; i < 12; i++) {
    int *at;
    OK(cudaMalloc(&at, 2 << 20));
    put<<<1, 32>>>(at, i);
    let_leave();
    EXPECT(read(at) == i);
  }
}

int main(int, char **arguments) {
  struct {
    const char *name;
    void (*run)();
  } cases[] = {{"workspace", workspace}, {"first", first},     {"history", history}, {"previous", previous},
               {"thrown", thrown},       {"failing", failing}, {"lost", lost}};
  for (auto &one : cases)
    if (std::string(arguments[1]) == one.name) {
      one.run();
      OK(cudaGetLastError());
      printf("PASS\n");
      return 0;
    }
  return 1;
}
