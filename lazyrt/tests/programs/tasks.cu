// Static tasks beside the lazy one, in one thread and in several; a task in a loop; one that outlives its end;
// a need told by hand.
//
//   tasks CASE

#include "check.h"
#include <mgb.h>
#include <thread>
#include <vector>

__global__ void fill(int *values, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = value + i;
}

// Its own objects from beginning to end: what the pass can bind by itself.
static void whole(int count, int value) {
  int *values = nullptr;
  std::vector<int> host(count);
  OK(cudaMalloc(&values, count * sizeof(int)));
  fill<<<(count + 127) / 128, 128>>>(values, count, value);
  OK(cudaMemcpy(host.data(), values, count * sizeof(int), cudaMemcpyDeviceToHost));
  OK(cudaFree(values));
  for (int i = 0; i < count; i++)
    EXPECT(host[i] == value + i);
}

static void loops() {
  for (int i = 0; i < 200; i++)
    whole(1000 + i * 100, i);
}

static void threads() {
  std::vector<std::thread> all;
  for (int t = 0; t < 4; t++)
    all.emplace_back([t] {
      for (int i = 0; i < 25; i++)
        whole(50000, t * 1000 + i);
    });
  for (std::thread &thread : all)
    thread.join();
}

static void check_box(int value) {
  std::vector<int> host(boxes[0].bytes / sizeof(int));
  OK(cudaMemcpy(host.data(), boxes[0].pointer, boxes[0].bytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); i++)
    EXPECT(host[i] == value + int(i));
}

static void beside() {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, 300000));
  boxes[0] = {static_cast<unsigned char *>(pointer), 300000};
  for (int round = 0; round < 5; round++) {
    fill<<<600, 128>>>(reinterpret_cast<int *>(boxes[0].pointer), 75000, round);
    OK(cudaGetLastError());
    whole(20000, round);
    check_box(round);
  }
  // Every device that was used is waited for.
  OK(cudaDeviceSynchronize());
  // From here on the process is tied to one GPU.
  cudaEvent_t event;
  OK(cudaEventCreate(&event));
  whole(20000, 7);
  OK(cudaEventRecord(event, 0));
  OK(cudaEventSynchronize(event));
  check_box(4);
  OK(cudaEventDestroy(event));
  OK(cudaFree(boxes[0].pointer));
}

static void by_hand() {
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = 8 << 20;
  need.grid_blocks = 100;
  need.block_threads = 128;
  mgb_task task = mgb_task_begin(nullptr, &need);
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, 4 << 20));
  boxes[0] = {static_cast<unsigned char *>(pointer), 4 << 20};
  fill<<<(1 << 20) / 128, 128>>>(reinterpret_cast<int *>(boxes[0].pointer), 1 << 20, 3);
  check_box(3);
  mgb_task_end(task);
  // A wrong end: the memory is still there, and more can be had.
  check_box(3);
  void *more = nullptr;
  OK(cudaMalloc(&more, 6 << 20));
  OK(cudaMemset(more, 1, 6 << 20));
  check_box(3);
  OK(cudaFree(more));
  OK(cudaFree(boxes[0].pointer));
  mgb_task_end(task);
  mgb_task_end(0);
}

// A need that no GPU has is advice: the task allocates what it can, and is bound by that.
static void refused() {
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = uint64_t(1) << 50;
  mgb_task_site site = {sizeof(mgb_task_site), 3, "tasks.cu", "refused"};
  void *before = nullptr;
  // A pointer in memory keeps the pass from placing these ops in a task of its own.
  mgb_task_use(&site, 0);
  OK(cudaMalloc(&before, 100000));
  boxes[0] = {static_cast<unsigned char *>(before), 100000};
  mgb_task task = mgb_task_begin(&site, &need);
  mgb_task_use(&site, task);
  OK(cudaMalloc((void **)&boxes[1].pointer, 400000));
  mgb_task_use(&site, task);
  OK(cudaMemset(boxes[1].pointer, 0, 400000));
  for (int round = 0; round < 3; round++) {
    mgb_task_use(&site, task);
    fill<<<800, 128>>>(reinterpret_cast<int *>(boxes[1].pointer), 100000, round);
    mgb_task_use(&site, task);
    fill<<<200, 128>>>(reinterpret_cast<int *>(boxes[0].pointer), 25000, round);
    OK(cudaGetLastError());
    check_box(round);
  }
  // What no GPU has is refused where it is asked for, and counts no longer.
  void *more = nullptr;
  mgb_task_use(&site, task);
  IS(cudaMalloc(&more, size_t(1) << 40), cudaErrorMemoryAllocation);
  IS(cudaGetLastError(), cudaErrorMemoryAllocation);
  mgb_task_use(&site, task);
  OK(cudaMalloc(&more, 1 << 20));
  OK(cudaMemset(more, 1, 1 << 20));
  mgb_task_end(task);
  check_box(2);
  OK(cudaFree(more));
  OK(cudaFree(boxes[0].pointer));
  OK(cudaFree(boxes[1].pointer));
  whole(1000, 1);
}

// Allocates until nothing is left, beside an object of the lazy task, and uses all of it.
static void all_there_is() {
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = uint64_t(1) << 50;
  mgb_task_site site = {sizeof(mgb_task_site), 4, "tasks.cu", "all_there_is"};
  for (size_t beside : {size_t(6) << 20, size_t(7) << 20, size_t(8) << 20, size_t(9) << 20}) {
    // A pointer in memory keeps the pass from placing these ops in a task of its own.
    OK(cudaMalloc((void **)&boxes[0].pointer, beside));
    fill<<<1, 128>>>(reinterpret_cast<int *>(boxes[0].pointer), 100, 5);
    const size_t size = beside % (2 << 20) == 0 ? 4 << 20 : 17 << 20;
    std::vector<void *> pieces;
    void *piece = nullptr;
    for (;;) {
      mgb_task_use(&site, 0);
      if (cudaMalloc(&piece, size) != cudaSuccess)
        break;
      pieces.push_back(piece);
    }
    IS(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT(pieces.size() >= 2);
    mgb_task task = mgb_task_begin(&site, &need);
    for (size_t at = 0; at < pieces.size(); at++) {
      mgb_task_use(&site, task);
      fill<<<1, 128>>>(static_cast<int *>(pieces[at]), 100, int(at));
      OK(cudaGetLastError());
    }
    for (size_t at = 0; at < pieces.size(); at++) {
      int value = 0;
      OK(cudaMemcpy(&value, static_cast<int *>(pieces[at]) + 7, sizeof value, cudaMemcpyDeviceToHost));
      EXPECT(value == int(at) + 7);
      OK(cudaFree(pieces[at]));
    }
    mgb_task_end(task);
    OK(cudaFree(boxes[0].pointer));
  }
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(loops), CASE(threads), CASE(beside), CASE(by_hand), CASE(refused), CASE(all_there_is),
  };
  return play(argc, argv, cases);
}
