// Work that threads and processes submit as they end. Every case also holds natively.

#include "check.h"
#include <thread>
#include <vector>

static const int COUNT = 1024;
static const size_t BYTES = COUNT * sizeof(int);

__global__ void fill(int *values, int value) { values[threadIdx.x] = value; }
__global__ void add(int *values, int value) { values[threadIdx.x] += value; }

static int first_of(const int *values, cudaStream_t stream) {
  int value = -1;
  OK(cudaMemcpyAsync(&value, values, sizeof value, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  return value;
}

// Made before the thread's first call of CUDA, and so ended after what CUDA keeps for the thread.
struct Own {
  int *values = nullptr;
  cudaStream_t stream = nullptr;

  void begin(int value) {
    void *pointer = nullptr;
    OK(cudaMalloc(&pointer, BYTES));
    values = static_cast<int *>(pointer);
    OK(cudaStreamCreate(&stream));
    fill<<<1, COUNT, 0, stream>>>(values, value);
    EXPECT(first_of(values, stream) == value);
  }

  ~Own() {
    if (values == nullptr)
      return;
    int before = first_of(values, stream);
    add<<<1, COUNT, 0, stream>>>(values, 1);
    EXPECT(first_of(values, stream) == before + 1);
    // One block is run by the thread itself, many are not.
    add<<<64, 1, 0, stream>>>(values, 1);
    int *more = nullptr;
    OK(cudaMalloc(&more, BYTES));
    fill<<<1, COUNT, 0, cudaStreamPerThread>>>(more, 7);
    EXPECT(first_of(more, cudaStreamPerThread) == 7);
    OK(cudaFree(more));
    EXPECT(first_of(values, stream) == before + 65);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(values));
    values = nullptr;
  }
};

static thread_local Own own;

static void end_of_threads() {
  own.begin(1);
  for (int round = 0; round < 3; round++) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
      threads.emplace_back([i] { own.begin(10 * i); });
    for (std::thread &thread : threads)
      thread.join();
  }
}

static int *kept;

static void late() {
  add<<<1, COUNT>>>(kept, 1);
  EXPECT(first_of(kept, nullptr) == 6);
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, BYTES));
  OK(cudaFree(pointer));
  printf("late\n");
}

// CUDA is shut down by then: it says so, and nothing is done.
static void early() {
  int value = 17;
  add<<<1, COUNT>>>(kept, 1);
  cudaGetLastError();
  EXPECT(cudaMemcpy(&value, kept, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess && value == 17);
  printf("early\n");
}

// What a program registers for its end before its first call of CUDA runs after CUDA's own end, the rest before.
static void end_of_process() {
  EXPECT(atexit(early) == 0);
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, BYTES));
  kept = static_cast<int *>(pointer);
  fill<<<1, COUNT>>>(kept, 5);
  EXPECT(first_of(kept, nullptr) == 5);
  EXPECT(atexit(late) == 0);
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(end_of_threads), CASE(end_of_process)};
  return play(argc, argv, cases);
}
