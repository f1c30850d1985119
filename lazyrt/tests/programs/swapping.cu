// What is swapped out and in while other things go on, on one device of 64 MiB. One case per argument; only under MGB:
// natively the memory is too little.
//
//   swapping CASE

#include "check.h"
#include <atomic>
#include <chrono>
#include <mgb.h>
#include <thread>
#include <vector>

constexpr size_t BYTES = 36 << 20;

__global__ void add(unsigned char *bytes, size_t count, int value) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

static void run(cudaStream_t stream, int value = 1) {
  add<<<unsigned((BYTES + 127) / 128), 128, 0, stream>>>(boxes[0].pointer, BYTES, value);
  OK(cudaGetLastError());
}

static void make() {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, BYTES));
  boxes[0] = {static_cast<unsigned char *>(pointer), BYTES};
  OK(cudaMemset(boxes[0].pointer, 5, BYTES));
  // A launch brings it to the GPU.
  run(nullptr, 0);
  OK(cudaDeviceSynchronize());
}

static void expect(int value) {
  std::vector<unsigned char> host(BYTES);
  OK(cudaMemcpy(host.data(), boxes[0].pointer, BYTES, cudaMemcpyDeviceToHost));
  for (unsigned char byte : host)
    EXPECT(byte == value);
}

// A task for which the object above has to leave the GPU.
static void push_out() {
  static mgb_task_site site = {sizeof(mgb_task_site), 1, "swapping.cu", "push_out"};
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = need.mapped_bytes = BYTES;
  cudaStream_t stream;
  void *pointer;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  mgb_task_use(&site, 0);
  OK(cudaMalloc(&pointer, BYTES));
  uint64_t task = mgb_task_begin(&site, &need);
  mgb_task_use(&site, task);
  OK(cudaMemsetAsync(pointer, 1, BYTES, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(pointer));
  mgb_task_end(task);
}

// The bytes come back from the host as they left.
static void there_and_back() {
  make();
  for (int round = 0; round < 3; round++) {
    push_out();
    run(nullptr);
    expect(6 + round);
  }
}

// The copy back fails once: that is said, and nothing is lost.
static void failed_copy() {
  make();
  push_out();
  cudaError_t first = cudaMemset(boxes[0].pointer, 5, 1);
  EXPECT(first != cudaSuccess && cudaGetLastError() == first);
  OK(cudaMemset(boxes[0].pointer, 5, 1));
  expect(5);
}

// The GPU's work waits for what another thread has yet to send.
static void waiting_work() {
  static std::atomic<bool> go{false}, begun{false};
  make();
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaLaunchHostFunc(stream, [](void *) { begun = true; while (!go) std::this_thread::yield(); }, nullptr));
  run(stream);
  std::thread sender([] {
    while (!begun)
      std::this_thread::yield();
    // By now the other thread waits for the GPU, to swap.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    cudaStream_t other;
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMemsetAsync(boxes[0].pointer, 5, 1, other));
    OK(cudaStreamSynchronize(other));
    go = true;
  });
  push_out();
  sender.join();
  expect(6);
  OK(cudaStreamDestroy(stream));
}

// Memory of a task that is over comes back while a stream of another thread captures, and the capture goes on.
static void during_capture() {
  static mgb_task_site site = {sizeof(mgb_task_site), 2, "swapping.cu", "during_capture"};
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = need.mapped_bytes = BYTES;
  cudaStream_t own, captured;
  cudaGraph_t graph;
  void *pointer;
  OK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  OK(cudaStreamCreate(&captured));
  mgb_task_use(&site, 0);
  OK(cudaMalloc(&pointer, BYTES));
  boxes[0] = {static_cast<unsigned char *>(pointer), BYTES};
  uint64_t task = mgb_task_begin(&site, &need);
  mgb_task_use(&site, task);
  OK(cudaMemsetAsync(pointer, 4, BYTES, own));
  OK(cudaStreamSynchronize(own));
  mgb_task_end(task);
  push_out();
  OK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
  std::thread([own] {
    OK(cudaMemsetAsync(boxes[0].pointer, 5, 1, own));
    OK(cudaStreamSynchronize(own));
  }).join();
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(captured, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  OK(cudaStreamEndCapture(captured, &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaMemsetAsync(boxes[0].pointer, 4, 1, own));
  OK(cudaStreamSynchronize(own));
  expect(4);
  OK(cudaFree(boxes[0].pointer));
  OK(cudaStreamDestroy(captured));
  OK(cudaStreamDestroy(own));
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(there_and_back), CASE(failed_copy), CASE(waiting_work), CASE(during_capture)};
  return play(argc, argv, cases);
}
