// Static tasks that share device variables: several at once, in several threads, on several devices of the program, and
// after a reset. Each task has memory of its own, so that nothing but the variables keeps them together.
//
//   variables CASE

#include "check.h"
#include <thread>
#include <vector>

__device__ int counter = 100;
__constant__ int step = 1;

__global__ void count(int *own) {
  own[threadIdx.x] = step;
  if (threadIdx.x == 0)
    atomicAdd(&counter, step);
}

static int counted() {
  int value = 0;
  OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  return value;
}

// Its own object from beginning to end: what the pass can bind by itself. Meanwhile something else runs.
static void task(int steps, void (*volatile meanwhile)() = nullptr) {
  int *own = nullptr, host[32];
  OK(cudaMalloc(&own, 4 << 20));
  count<<<1, 32>>>(own);
  if (meanwhile)
    meanwhile();
  OK(cudaMemcpy(host, own, sizeof host, cudaMemcpyDeviceToHost));
  OK(cudaFree(own));
  for (int one : host)
    EXPECT(one == steps);
}

static void other_task() {
  float *own = nullptr;
  OK(cudaMalloc(&own, 2 << 20));
  count<<<1, 32>>>(reinterpret_cast<int *>(own));
  OK(cudaDeviceSynchronize());
  OK(cudaFree(own));
}

// Two tasks at once: the node's other device is idle, and must not be taken.
static void together() {
  for (int round = 1; round <= 5; round++) {
    task(1, other_task);
    EXPECT(counted() == 100 + 2 * round);
  }
}

// What is written before anything is bound, and between the runs of a task.
static void written() {
  for (int steps = 2; steps < 6; steps++) {
    OK(cudaMemcpyToSymbol(step, &steps, sizeof steps));
    task(steps);
    task(steps, other_task);
  }
  EXPECT(counted() == 100 + 3 * (2 + 3 + 4 + 5));
}

static void shared_by_threads() {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; t++)
    all.emplace_back([] {
      for (int i = 0; i < 25; i++)
        task(1);
    });
  for (std::thread &thread : all)
    thread.join();
  EXPECT(counted() == 200);
}

// Each device of the program has its own variables.
static void owned() {
  std::vector<std::thread> all;
  for (int device = 0; device < 2; device++)
    all.emplace_back([device] {
      OK(cudaSetDevice(device));
      for (int i = 0; i <= device; i++)
        task(1, other_task);
      EXPECT(counted() == 102 + 2 * device);
    });
  for (std::thread &thread : all)
    thread.join();
}

static void reset_values() {
  for (int round = 0; round < 3; round++) {
    task(1, other_task);
    EXPECT(counted() == 102);
    OK(cudaDeviceReset());
  }
}

int main(int argc, char **argv) {
  return play(argc, argv, {CASE(together), CASE(written), CASE(shared_by_threads), CASE(owned), CASE(reset_values)});
}
