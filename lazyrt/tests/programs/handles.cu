// Streams, events, pinned memory and what is set for kernels, made before the program has a GPU and used after. One case
// per argument; every case also holds natively, except where it says "mgb".
//
//   handles CASE

#include "check.h"
#include <algorithm>
#include <chrono>
#include <mgb.h>
#include <string>
#include <thread>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

__global__ void add(int *values, int count, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    values[i] += value;
}

__global__ void with_shared(int *value) {
  extern __shared__ int many[];
  many[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0)
    *value = many[blockDim.x - 1];
}

constexpr int COUNT = 20000;

static int *box() {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, COUNT * sizeof(int)));
  boxes[0] = {static_cast<unsigned char *>(pointer), COUNT * sizeof(int)};
  return reinterpret_cast<int *>(boxes[0].pointer);
}

static void expect(const int *values, int value) {
  std::vector<int> host(COUNT);
  OK(cudaMemcpy(host.data(), values, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
  for (int one : host)
    EXPECT(one == value);
}

// Made first, used later: on streams of both kinds, in an order that only events give.
static void early() {
  cudaStream_t first, second;
  cudaEvent_t start, middle, stop;
  OK(cudaStreamCreate(&first));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreateWithFlags(&middle, cudaEventDisableTiming));
  OK(cudaEventCreate(&stop));
  unsigned flags = 9;
  OK(cudaStreamGetFlags(second, &flags));
  EXPECT(flags == cudaStreamNonBlocking);
  OK(cudaStreamQuery(first));
  OK(cudaStreamSynchronize(second));
  OK(cudaEventQuery(start));
  float ms = -1;
  IS(cudaEventElapsedTime(&ms, start, stop), cudaErrorInvalidResourceHandle);
  OK(cudaEventRecord(start, first));
  OK(cudaEventRecord(stop, first));
  OK(cudaEventSynchronize(stop));
  OK(cudaEventElapsedTime(&ms, start, stop));
  EXPECT(ms >= 0);
  cudaGetLastError();

  int *values = box();
  OK(cudaMemsetAsync(values, 0, COUNT * sizeof(int), first));
  for (int i = 0; i < 10; i++) {
    add<<<4, 64, 0, first>>>(values, COUNT, 1);
    OK(cudaEventRecord(middle, first));
    OK(cudaStreamWaitEvent(second, middle, 0));
    add<<<4, 64, 0, second>>>(values, COUNT, 2);
    OK(cudaEventRecord(middle, second));
    OK(cudaStreamWaitEvent(first, middle, 0));
  }
  OK(cudaEventRecord(stop, first));
  OK(cudaStreamSynchronize(first));
  OK(cudaEventQuery(stop));
  OK(cudaEventElapsedTime(&ms, start, stop));
  EXPECT(ms > 0);
  IS(cudaEventElapsedTime(&ms, start, middle), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  expect(values, 30);
  OK(cudaFree(values));
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(middle));
  OK(cudaEventDestroy(stop));
}

// What is wrong is said at once.
static void wrong() {
  cudaStream_t stream;
  cudaEvent_t event;
  IS(cudaStreamCreateWithFlags(&stream, 77), cudaErrorInvalidValue);
  IS(cudaEventCreateWithFlags(&event, 1 << 9), cudaErrorInvalidValue);
  IS(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
  IS(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  IS(cudaGetLastError(), cudaErrorInvalidValue);
  void *memory = nullptr;
  OK(cudaMallocHost(&memory, 0));
  OK(cudaFreeHost(nullptr));
  char own[4096];
  OK(cudaHostRegister(own, sizeof own, 0));
  IS(cudaHostRegister(own, 100, 0), cudaErrorHostMemoryAlreadyRegistered);
  OK(cudaHostUnregister(own));
  IS(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
}

struct Seen {
  cudaStream_t stream;
  int *value;
  int count;
};

static void CUDART_CB called(cudaStream_t stream, cudaError_t status, void *data) {
  Seen *seen = static_cast<Seen *>(data);
  if (status == cudaSuccess && stream == seen->stream && seen->value[COUNT - 1] == 5)
    seen->count++;
}

static void CUDART_CB plain(void *data) { static_cast<Seen *>(data)->count++; }

// Callbacks come in order, with the program's own handle.
static void callbacks() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  int *pinned = nullptr;
  OK(cudaMallocHost(&pinned, COUNT * sizeof(int)));
  for (int i = 0; i < COUNT; i++)
    pinned[i] = 0;
  Seen seen = {stream, pinned, 0};
  OK(cudaLaunchHostFunc(stream, plain, &seen));
  OK(cudaStreamSynchronize(stream));
  EXPECT(seen.count == 1);
  int *values = box();
  OK(cudaMemcpyAsync(values, pinned, COUNT * sizeof(int), cudaMemcpyHostToDevice, stream));
  add<<<4, 64, 0, stream>>>(values, COUNT, 5);
  OK(cudaMemcpyAsync(pinned, values, COUNT * sizeof(int), cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamAddCallback(stream, called, &seen, 0));
  OK(cudaLaunchHostFunc(stream, plain, &seen));
  OK(cudaStreamSynchronize(stream));
  EXPECT(seen.count == 3);
  OK(cudaFree(values));
  OK(cudaFreeHost(pinned));
  OK(cudaStreamDestroy(stream));
}

// Pinned before and after there is a context: mapped, found by the runtime, freed in either order.
static void pinned() {
  int *early = nullptr, *mapped = nullptr, *late = nullptr;
  static int own[COUNT];
  OK(cudaMallocHost(&early, COUNT * sizeof(int)));
  OK(cudaHostAlloc(&mapped, COUNT * sizeof(int), cudaHostAllocMapped));
  OK(cudaHostRegister(own, sizeof own, cudaHostRegisterMapped));
  int *gone = nullptr;
  OK(cudaMallocHost(&gone, 100));
  OK(cudaFreeHost(gone));
  for (int i = 0; i < COUNT; i++)
    early[i] = mapped[i] = own[i] = i;
  int *values = box();
  OK(cudaMemcpy(values, early, COUNT * sizeof(int), cudaMemcpyHostToDevice));
  add<<<4, 64>>>(values, COUNT, 1);
  int *there = nullptr;
  OK(cudaHostGetDevicePointer(&there, mapped, 0));
  add<<<4, 64>>>(there, COUNT, 2);
  OK(cudaHostGetDevicePointer(&there, own, 0));
  add<<<4, 64>>>(there, COUNT, 3);
  OK(cudaMallocHost(&late, COUNT * sizeof(int)));
  OK(cudaMemcpy(late, values, COUNT * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < COUNT; i++)
    EXPECT(late[i] == i + 1 && mapped[i] == i + 2 && own[i] == i + 3);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, early + 10));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  OK(cudaHostUnregister(own));
  OK(cudaFreeHost(late));
  OK(cudaFreeHost(early));
  OK(cudaFreeHost(mapped));
  OK(cudaFree(values));
}

// Dynamic shared memory beyond the default, allowed before there is a context.
static void functions() {
  OK(cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  OK(cudaFuncSetCacheConfig(with_shared, cudaFuncCachePreferShared));
  int *values = box();
  with_shared<<<1, 1024, 60 << 10>>>(values);
  OK(cudaGetLastError());
  int last = 0;
  OK(cudaMemcpy(&last, values, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 1023);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, with_shared));
  EXPECT(attributes.maxDynamicSharedSizeBytes >= 64 << 10);
  OK(cudaFree(values));
}

// A graph that is captured on an early stream, with an event node that is asked for again.
static void captured() {
  cudaStream_t stream, side;
  cudaEvent_t fork, join, marked;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  OK(cudaEventCreate(&marked));
  int *values = box(), *more = nullptr;
  OK(cudaMalloc(&more, COUNT * sizeof(int)));
  boxes[1] = {reinterpret_cast<unsigned char *>(more), COUNT * sizeof(int)};
  more = reinterpret_cast<int *>(boxes[1].pointer);
  OK(cudaMemset(values, 0, COUNT * sizeof(int)));
  OK(cudaMemset(more, 0, COUNT * sizeof(int)));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(side, fork, 0));
  add<<<4, 64, 0, stream>>>(values, COUNT, 1);
  add<<<4, 64, 0, side>>>(more, COUNT, 2);
  OK(cudaEventRecord(join, side));
  OK(cudaStreamWaitEvent(stream, join, 0));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t node;
  OK(cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, marked));
  cudaEvent_t again = nullptr;
  OK(cudaGraphEventRecordNodeGetEvent(node, &again));
  EXPECT(again == marked);
  cudaGraphExec_t run;
  OK(cudaGraphInstantiate(&run, graph, 0));
  for (int i = 0; i < 3; i++)
    OK(cudaGraphLaunch(run, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventQuery(marked));
  expect(values, 3);
  expect(more, 6);
  OK(cudaGraphExecDestroy(run));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(values));
  OK(cudaFree(more));
  OK(cudaDeviceReset());
}

// Tasks on two GPUs, which take turns with one piece of pinned memory, each in its stream: the second waits for what the
// first has there. By hand, so that each is on a GPU of its own. Both streams are the same, or one of them waits for the
// other because it is the default stream.
static void moving(cudaStream_t first, cudaStream_t second) {
  cudaStream_t streams[2] = {first, second}, stream = first;
  cudaEvent_t start, stop;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  static mgb_task_site sites[2] = {{sizeof(mgb_task_site), 1, "handles.cu", "moving"},
                                   {sizeof(mgb_task_site), 2, "handles.cu", "moving"}};
  int *pinned = nullptr;
  OK(cudaMallocHost(&pinned, COUNT * sizeof(int)));
  for (int i = 0; i < COUNT; i++)
    pinned[i] = 0;
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = need.mapped_bytes = 40 << 20;
  int *values[2];
  uint64_t tasks[2];
  for (int t = 0; t < 2; t++) {
    mgb_task_use(&sites[t], 0);
    void *pointer = nullptr;
    OK(cudaMalloc(&pointer, 40 << 20));
    boxes[t] = {static_cast<unsigned char *>(pointer), 40 << 20};
    values[t] = reinterpret_cast<int *>(boxes[t].pointer);
    tasks[t] = mgb_task_begin(&sites[t], &need);
  }
  OK(cudaEventRecord(start, stream));
  for (int round = 0; round < 6; round++) {
    int t = round % 2;
    stream = streams[t];
    mgb_task_use(&sites[t], tasks[t]);
    OK(cudaMemcpyAsync(values[t], pinned, COUNT * sizeof(int), cudaMemcpyHostToDevice, stream));
    mgb_task_use(&sites[t], tasks[t]);
    add<<<1, 32, 0, stream>>>(values[t], COUNT, round + 1);
    mgb_task_use(&sites[t], tasks[t]);
    OK(cudaMemcpyAsync(pinned, values[t], COUNT * sizeof(int), cudaMemcpyDeviceToHost, stream));
  }
  // Long enough to be told by the host's clock on a busy machine.
  OK(cudaStreamSynchronize(stream));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  OK(cudaEventRecord(stop, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < COUNT; i++)
    EXPECT(pinned[i] == 21);
  float ms = -1;
  OK(cudaEventElapsedTime(&ms, start, stop));
  EXPECT(ms > 15 && ms < 5000);
  // A copy that returns when it is done comes after what the other GPU was given before.
  for (int i = 0; i < COUNT; i++)
    pinned[i] = 0;
  for (int round = 0; round < 6; round++) {
    int t = round % 2;
    mgb_task_use(&sites[t], tasks[t]);
    OK(cudaMemcpy(values[t], pinned, COUNT * sizeof(int), cudaMemcpyHostToDevice));
    mgb_task_use(&sites[t], tasks[t]);
    add<<<1, 32>>>(values[t], COUNT, round + 1);
    mgb_task_use(&sites[t], tasks[t]);
    OK(cudaMemcpyAsync(pinned, values[t], COUNT * sizeof(int), cudaMemcpyDeviceToHost));
  }
  OK(cudaEventRecord(stop));
  OK(cudaEventSynchronize(stop));
  for (int i = 0; i < COUNT; i++)
    EXPECT(pinned[i] == 21);
  for (int t = 0; t < 2; t++) {
    OK(cudaFree(values[t]));
    mgb_task_end(tasks[t]);
  }
  OK(cudaFreeHost(pinned));
}

static void moving() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  moving(stream, stream);
}

static void moving_default() { moving(nullptr, nullptr); }

static void moving_from_default() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  moving(nullptr, stream);
  moving(stream, nullptr);
}

// Says that it is so far by a file, and waits to be let go by another.
static void rest(const char *name) {
  std::string file = name;
  fclose(fopen(file.c_str(), "w"));
  while (access((file + ".go").c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// All that is made here needs no GPU: the process is on none while it rests.
static void nowhere() {
  cudaStream_t stream;
  cudaEvent_t event;
  void *host = nullptr, *device = nullptr;
  int count = 0, which = -1;
  cudaDeviceProp properties;
  OK(cudaGetDeviceCount(&count));
  OK(cudaSetDevice(count - 1));
  OK(cudaGetDevice(&which));
  EXPECT(which == count - 1);
  OK(cudaGetDeviceProperties(&properties, 0));
  OK(cudaFree(nullptr));
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(stream, event, 0));
  OK(cudaMallocHost(&host, 1 << 20));
  OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
  OK(cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  OK(cudaMalloc(&device, 1000));
  OK(cudaMemset(device, 0, 1000));
  OK(cudaStreamSynchronize(stream));
  OK(cudaDeviceSynchronize());
  rest("held");
}

__global__ void late(volatile int *word, int rounds) {
  int sum = 0;
  for (int i = 0; i < rounds; i++)
    sum += word[1];
  word[0] = 7 + sum;
}

// To free waits for all that the device was given, whatever it is that is freed.
static void freeing() {
  int *word = nullptr;
  void *unused = nullptr;
  OK(cudaMallocHost(&word, 2 * sizeof(int)));
  word[0] = word[1] = 0;
  late<<<1, 1>>>(word, 2 << 20);
  OK(cudaGetLastError());
  OK(cudaMalloc(&unused, 1 << 20));
  OK(cudaFree(unused));
  EXPECT(word[0] == 7);
  OK(cudaFreeHost(word));
}

// Ends while a kernel is under way, which writes into a file in the end.
static void left_running(const char *name) {
  FILE *file = fopen(name, "r+");
  EXPECT(file != nullptr);
  void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  EXPECT(page != MAP_FAILED);
  OK(cudaHostRegister(page, 4096, cudaHostRegisterMapped));
  void *word = nullptr;
  OK(cudaHostGetDevicePointer(&word, page, 0));
  late<<<1, 1>>>(static_cast<int *>(word), 3 << 20);
  OK(cudaGetLastError());
}

__attribute__((noinline)) static void turn() { add<<<1, 32>>>(nullptr, 0, 1); }

// A static task without objects, in a loop of its caller: it asks once, and not at every turn.
static void turns(int count) {
  for (int i = 0; i < count; i++)
    turn();
  OK(cudaDeviceSynchronize());
}

// Most of a GPU for a moment, again and again, then nothing for long.
static void most_of_it(const char *name) {
  for (int i = 0; i < 3; i++) {
    int *values = nullptr;
    OK(cudaMalloc(&values, 50 << 20));
    add<<<1, 32>>>(values, COUNT, 1);
    OK(cudaFree(values));
  }
  rest(name);
}

// The same; then asks what is left. Its grant was taken back meanwhile: to wait for a view that shows it
// would take half a second.
static void asks(const char *name) {
  most_of_it(name);
  auto least = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 3; i++) {
    size_t free = 0, total = 0;
    auto start = std::chrono::steady_clock::now();
    OK(cudaMemGetInfo(&free, &total));
    least = std::min(least, std::chrono::steady_clock::now() - start);
    EXPECT(free >= 40 << 20);
  }
  EXPECT(least < std::chrono::milliseconds(400));
}

int main(int argc, char **argv) {
  const char *name = argc > 2 ? argv[1] : "";
  if (strcmp(name, "most_of_it") == 0) {
    most_of_it(argv[2]);
    return 0;
  }
  if (strcmp(name, "asks") == 0) {
    asks(argv[2]);
    return 0;
  }
  if (strcmp(name, "left_running") == 0) {
    left_running(argv[2]);
    return 0;
  }
  if (strcmp(name, "turns") == 0) {
    turns(atoi(argv[2]));
    rest("turns");
    return 0;
  }
  const Case cases[] = {
      CASE(early), CASE(wrong), CASE(callbacks), CASE(pinned), CASE(functions), CASE(captured), CASE(freeing), CASE(moving),
      CASE(moving_default), CASE(moving_from_default), CASE(nowhere),
  };
  return play(argc, argv, cases);
}
