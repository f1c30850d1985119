// Copies out of host memory that earlier work has yet to write, into objects of a task that has no GPU yet. A
// host function holds the stream until the copy was called, so that bytes taken at the call are the old ones.
// Every case also holds natively.

#include "check.h"
#include <atomic>
#include <chrono>
#include <thread>

static const int COUNT = 64;
static const size_t BYTES = COUNT * sizeof(int);

static std::atomic<bool> go;
static int *pinned;

__global__ void fill(int *values, int value) { values[threadIdx.x] = value; }

__device__ int variable[COUNT];
__global__ void read_variable(int *values) { values[threadIdx.x] = variable[threadIdx.x]; }

static void CUDART_CB hold(void *) {
  while (!go)
    std::this_thread::yield();
}

static void CUDART_CB write_late(void *values) {
  hold(nullptr);
  // This is the work that the copy must wait for, and it takes a while.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int i = 0; i < COUNT; i++)
    static_cast<int *>(values)[i] = 9;
}

// The process's first context is a static task's, so that the lazy task stays without a GPU.
static void begin() {
  int *own = nullptr, last = 0;
  OK(cudaMalloc(&own, BYTES));
  fill<<<1, COUNT>>>(own, 1);
  OK(cudaMemcpy(&last, own + COUNT - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 1);
  OK(cudaFree(own));
  OK(cudaHostAlloc(&pinned, BYTES, cudaHostAllocMapped | cudaHostAllocPortable));
  memset(pinned, 0, BYTES);
}

static int *lazy_object() {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, BYTES));
  boxes[0].pointer = static_cast<unsigned char *>(pointer);
  return reinterpret_cast<int *>(boxes[0].pointer);
}

static void check(const int *values, int value) {
  int host[COUNT];
  OK(cudaMemcpy(host, values, BYTES, cudaMemcpyDeviceToHost));
  for (int i = 0; i < COUNT; i++)
    EXPECT(host[i] == value);
}

static cudaStream_t held_stream() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaLaunchHostFunc(stream, hold, nullptr));
  return stream;
}

static void finish(cudaStream_t stream, const int *values) {
  go = true;
  OK(cudaStreamSynchronize(stream));
  check(values, 9);
}

// A kernel and a copy to pinned memory come first.
static void after_copy() {
  begin();
  cudaStream_t stream = held_stream();
  int *own = nullptr;
  OK(cudaMalloc(&own, BYTES));
  fill<<<1, COUNT, 0, stream>>>(own, 9);
  OK(cudaMemcpyAsync(pinned, own, BYTES, cudaMemcpyDeviceToHost, stream));
  int *values = lazy_object();
  OK(cudaMemcpyAsync(values, pinned, BYTES, cudaMemcpyHostToDevice, stream));
  finish(stream, values);
}

// A host function writes pinned memory, and nothing else of the program is under way.
static void after_host_function() {
  begin();
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaLaunchHostFunc(stream, write_late, pinned));
  int *values = lazy_object();
  OK(cudaMemcpyAsync(values, pinned, BYTES, cudaMemcpyHostToDevice, stream));
  finish(stream, values);
}

static void CUDART_CB write_called(cudaStream_t, cudaError_t, void *values) { write_late(values); }

static void after_callback() {
  begin();
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamAddCallback(stream, write_called, pinned, 0));
  int *values = lazy_object();
  OK(cudaMemcpyAsync(values, pinned, BYTES, cudaMemcpyHostToDevice, stream));
  finish(stream, values);
}

// The writer is in another stream, which the copy's waits for by an event.
static void after_event() {
  begin();
  cudaStream_t writer, stream;
  cudaEvent_t written;
  OK(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  OK(cudaLaunchHostFunc(writer, write_late, pinned));
  OK(cudaEventRecord(written, writer));
  OK(cudaStreamWaitEvent(stream, written, 0));
  int *values = lazy_object();
  OK(cudaMemcpyAsync(values, pinned, BYTES, cudaMemcpyHostToDevice, stream));
  finish(stream, values);
}

// A copy that waits is behind the blocking streams, also where its source is ordinary memory.
static void behind_default_stream() {
  begin();
  static int ordinary[COUNT];
  for (int *source : {pinned, ordinary}) {
    go = false;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaLaunchHostFunc(stream, write_late, source));
    int *values = lazy_object();
    go = true;
    OK(cudaMemcpy(values, source, BYTES, cudaMemcpyHostToDevice));
    check(values, 9);
    OK(cudaFree(values));
    OK(cudaStreamDestroy(stream));
  }
}

// A device variable is written on a device that was not used before, out of memory that another's work writes.
static void after_other_device() {
  begin();
  cudaStream_t writer, stream;
  cudaEvent_t written;
  OK(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  OK(cudaLaunchHostFunc(writer, write_late, pinned));
  OK(cudaEventRecord(written, writer));
  OK(cudaSetDevice(1));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamWaitEvent(stream, written, 0));
  OK(cudaMemcpyToSymbolAsync(variable, pinned, BYTES, 0, cudaMemcpyHostToDevice, stream));
  int *values = lazy_object();
  read_variable<<<1, COUNT, 0, stream>>>(values);
  finish(stream, values);
}

// What a stream captures is done by the graph, each time that it is launched.
static void while_captured() {
  begin();
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaSetDevice(1));
  int *values = lazy_object();
  OK(cudaSetDevice(0));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaMemcpyAsync(values, pinned, BYTES, cudaMemcpyHostToDevice, stream));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 1);
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  for (int value = 5; value < 8; value++) {
    for (int i = 0; i < COUNT; i++)
      pinned[i] = value;
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    check(values, value);
  }
}

static void CUDART_CB finish_late(void *flag) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  static_cast<std::atomic<bool> *>(flag)->store(true);
}

// A free waits for the work of all streams, and ends no capture of another thread.
static void freed_while_captured() {
  int *early = nullptr;
  OK(cudaHostAlloc(&early, BYTES, cudaHostAllocMapped | cudaHostAllocPortable));
  begin();
  int *values = lazy_object();
  cudaStream_t captures, works, later;
  for (cudaStream_t *stream : {&captures, &works, &later})
    OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  fill<<<1, COUNT, 0, works>>>(values, 2);
  fill<<<1, COUNT, 0, later>>>(values, 2);
  OK(cudaDeviceSynchronize());
  OK(cudaStreamBeginCapture(captures, cudaStreamCaptureModeThreadLocal));
  fill<<<1, COUNT, 0, captures>>>(values, 3);
  std::thread([&] {
    int *other = nullptr;
    OK(cudaMalloc(&other, BYTES));
    fill<<<1, COUNT, 0, works>>>(other, 4);
    std::atomic<bool> works_is_done = false, later_is_done = false;
    OK(cudaLaunchHostFunc(works, finish_late, &works_is_done));
    OK(cudaFree(other));
    EXPECT(works_is_done);
    OK(cudaLaunchHostFunc(later, finish_late, &later_is_done));
    OK(cudaFreeHost(early));
    EXPECT(later_is_done);
  }).join();
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(captures, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  OK(cudaStreamEndCapture(captures, &graph));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, captures));
  OK(cudaStreamSynchronize(captures));
  check(values, 3);
}

// Nor does it return before work in another thread's own default stream, which only that thread can name: the legacy
// stream waits for it.
static void freed_behind_another_thread() {
  begin();
  int *values = lazy_object();
  cudaStream_t captures;
  OK(cudaStreamCreateWithFlags(&captures, cudaStreamNonBlocking));
  fill<<<1, COUNT>>>(values, 2);
  OK(cudaDeviceSynchronize());
  OK(cudaStreamBeginCapture(captures, cudaStreamCaptureModeThreadLocal));
  std::atomic<bool> is_given = false, may_end = false, is_done = false;
  std::thread works([&] {
    fill<<<1, COUNT, 0, cudaStreamPerThread>>>(values, 4);
    OK(cudaLaunchHostFunc(cudaStreamPerThread, finish_late, &is_done));
    is_given = true;
    while (!may_end)
      std::this_thread::yield();
  });
  while (!is_given)
    std::this_thread::yield();
  std::thread([&] { OK(cudaFree(values)); }).join();
  EXPECT(is_done);
  may_end = true;
  works.join();
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(after_copy),  CASE(after_host_function),   CASE(after_callback),
                        CASE(after_event), CASE(behind_default_stream), CASE(after_other_device),
                        CASE(while_captured), CASE(freed_while_captured),
                        CASE(freed_behind_another_thread)};
  return play(argc, argv, cases);
}
