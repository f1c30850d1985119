// A program on all devices in every arrangement that programs have: what its arguments choose, and how it was built. It
// prints sums that do not depend on the arrangement; natively and under MGB they are the same.
//
//   matrix one|each default|streams|graphs pinned|pageable|managed [DEVICES]
//
// one, each: one thread drives all devices in turn, or a thread each. Built three times (see Makefile): `matrix` is closed,
// `matrix_loads` may load libraries and does, `matrix_linked` is linked with a library that uses CUDA by itself.

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#ifdef LOADS
#include <dlfcn.h>
#endif
#ifdef LINKED
extern "C" int fill(void *memory, int byte, size_t bytes);
#endif

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t code_ = (call);                                                                                        \
    if (code_ != cudaSuccess) {                                                                                        \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(code_));                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

namespace {

const int MOST = 8, COUNT = 1 << 14, HALO = 256, STEPS = 6, THREADS = 128;
const size_t BYTES = COUNT * sizeof(unsigned);
enum { DEFAULT, STREAMS, GRAPHS } order;
enum { PINNED, PAGEABLE, MANAGED } memory;
bool each;
int devices;

__global__ void mix(unsigned *to, const unsigned *from, unsigned by) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i] * 2654435761u + from[(i + 1) % COUNT] + by;
}

unsigned *host_memory() {
  void *pointer = nullptr;
  if (memory == PINNED)
    OK(cudaMallocHost(&pointer, BYTES));
  else if (memory == MANAGED)
    OK(cudaMallocManaged(&pointer, BYTES));
  else
    pointer = malloc(BYTES);
  memset(pointer, 0, BYTES);
  return static_cast<unsigned *>(pointer);
}

void free_host(unsigned *pointer) {
  if (memory == PINNED)
    OK(cudaFreeHost(pointer));
  else if (memory == MANAGED)
    OK(cudaFree(pointer));
  else
    free(pointer);
}

unsigned sum(const unsigned *values) {
  unsigned all = 0;
  for (int i = 0; i < COUNT; i++)
    all = all * 31 + values[i];
  return all;
}

// A task that the pass can bind by itself: everything it needs is made, used and freed here, on the current device.
__attribute__((noinline)) unsigned alone(int device, unsigned *host) {
  unsigned *a, *b;
  cudaStream_t stream = nullptr;
  OK(cudaMalloc(&a, BYTES));
  OK(cudaMalloc(&b, BYTES));
  OK(cudaMemset(a, device + 1, BYTES));
  OK(cudaMemset(b, 0, BYTES));
  mix<<<COUNT / THREADS, THREADS>>>(b, a, 1);
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  if (order != DEFAULT)
    OK(cudaStreamCreate(&stream));
  for (int step = 0; step < STEPS; step++) {
    mix<<<COUNT / THREADS, THREADS, 0, stream>>>(a, b, step);
    mix<<<COUNT / THREADS, THREADS, 0, stream>>>(b, a, step);
    OK(cudaMemcpyAsync(host, b, BYTES, cudaMemcpyDefault, stream));
  }
  OK(cudaStreamSynchronize(stream));
  if (stream)
    OK(cudaStreamDestroy(stream));
  OK(cudaFree(a));
  OK(cudaFree(b));
  return sum(host);
}

// The same through a graph.
unsigned captured(int device, unsigned *host) {
  unsigned *a, *b;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  OK(cudaMalloc(&a, BYTES));
  OK(cudaMalloc(&b, BYTES));
  OK(cudaMemset(b, device + 1, BYTES));
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  mix<<<COUNT / THREADS, THREADS, 0, stream>>>(a, b, 1);
  mix<<<COUNT / THREADS, THREADS, 0, stream>>>(b, a, 2);
  OK(cudaMemcpyAsync(host, b, BYTES, cudaMemcpyDefault, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&runnable, graph, 0));
  for (int step = 0; step < STEPS; step++)
    OK(cudaGraphLaunch(runnable, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaGraphExecDestroy(runnable));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(a));
  OK(cudaFree(b));
  return sum(host);
}

// What each device has of the part that all do together.
struct Part {
  unsigned *a, *b, *host;
  cudaStream_t stream;
  cudaEvent_t computed, exchanged;
} parts[MOST];

// Threads meet; one alone is through at once.
class Meeting {
  std::mutex mutex;
  std::condition_variable all;
  int waiting = 0;
  unsigned turn = 0;

public:
  void meet() {
    if (!each)
      return;
    std::unique_lock<std::mutex> lock(mutex);
    unsigned mine = turn;
    if (++waiting == devices) {
      waiting = 0;
      turn++;
      all.notify_all();
    } else {
      all.wait(lock, [&] { return turn != mine; });
    }
  }
} meeting;

// Runs `what` for every device: in turn by this thread, or by the thread of the device alone.
template <class What> void on(int own, What what) {
  for (int d = 0; d < devices; d++)
    if (own < 0 || own == d) {
      OK(cudaSetDevice(d));
      what(d, parts[d]);
    }
  meeting.meet();
}

void together(int own) {
  on(own, [](int d, Part &part) {
    OK(cudaMalloc(&part.a, BYTES));
    OK(cudaMalloc(&part.b, BYTES));
    for (int i = 0; i < COUNT; i++)
      part.host[i] = i * (d + 3);
    OK(cudaMemcpy(part.a, part.host, BYTES, cudaMemcpyDefault));
    part.stream = nullptr;
    if (order != DEFAULT)
      OK(cudaStreamCreate(&part.stream));
    OK(cudaEventCreateWithFlags(&part.computed, cudaEventDisableTiming));
    OK(cudaEventCreate(&part.exchanged));
  });
  for (int step = 0; step < STEPS; step++) {
    on(own, [=](int, Part &part) {
      mix<<<COUNT / THREADS, THREADS, 0, part.stream>>>(part.b, part.a, step);
      OK(cudaGetLastError());
      OK(cudaEventRecord(part.computed, part.stream));
    });
    on(own, [=](int d, Part &part) {
      Part &next = parts[(d + 1) % devices];
      OK(cudaStreamWaitEvent(part.stream, next.computed, 0));
      OK(cudaMemcpyAsync(part.a, part.b, BYTES, cudaMemcpyDeviceToDevice, part.stream));
      OK(cudaMemcpyAsync(part.a, next.b + COUNT - HALO, HALO * sizeof(unsigned), cudaMemcpyDefault, part.stream));
      OK(cudaEventRecord(part.exchanged, part.stream));
    });
    on(own, [=](int d, Part &part) {
      Part &before = parts[(d + devices - 1) % devices];
      OK(cudaStreamWaitEvent(part.stream, before.exchanged, 0));
    });
  }
  on(own, [](int, Part &part) {
    OK(cudaMemcpyAsync(part.host, part.a, BYTES, cudaMemcpyDefault, part.stream));
    OK(cudaStreamSynchronize(part.stream));
    if (part.stream)
      OK(cudaStreamDestroy(part.stream));
    OK(cudaEventDestroy(part.computed));
    OK(cudaEventDestroy(part.exchanged));
    OK(cudaFree(part.a));
    OK(cudaFree(part.b));
  });
}

#ifdef LINKED
// Memory that the library writes by itself.
void by_library() {
  unsigned char *bytes, last = 0;
  OK(cudaMalloc(&bytes, 4096));
  if (fill(bytes, 7, 4096) != 0)
    exit(2);
  OK(cudaMemcpy(&last, bytes + 4095, 1, cudaMemcpyDeviceToHost));
  OK(cudaFree(bytes));
  if (last != 7)
    exit(3);
}
#endif

void drive(int own, std::vector<unsigned> &sums) {
  on(own, [](int, Part &part) { part.host = host_memory(); });
  on(own, [&](int d, Part &part) {
    sums[d] = order == GRAPHS ? captured(d, part.host) : alone(d, part.host);
#ifdef LINKED
    by_library();
#endif
  });
  together(own);
  on(own, [&](int d, Part &part) {
    sums[devices + d] = sum(part.host);
    free_host(part.host);
  });
}

} // namespace

int main(int count, char **arguments) {
  if (count < 4) {
    fprintf(stderr, "usage: matrix one|each default|streams|graphs pinned|pageable|managed [DEVICES]\n");
    return 2;
  }
  const std::string given[] = {arguments[1], arguments[2], arguments[3]};
  each = given[0] == "each";
  order = given[1] == "graphs" ? GRAPHS : given[1] == "streams" ? STREAMS : DEFAULT;
  memory = given[2] == "managed" ? MANAGED : given[2] == "pageable" ? PAGEABLE : PINNED;
#ifdef LOADS
  dlopen("libm.so.6", RTLD_LAZY);
#endif
  OK(cudaGetDeviceCount(&devices));
  if (count > 4 && atoi(arguments[4]) < devices)
    devices = atoi(arguments[4]);
  if (devices > MOST)
    devices = MOST;
  std::vector<unsigned> sums(2 * devices);
  if (each) {
    std::vector<std::thread> threads;
    for (int d = 0; d < devices; d++)
      threads.emplace_back([d, &sums] { drive(d, sums); });
    for (std::thread &thread : threads)
      thread.join();
  } else {
    drive(-1, sums);
  }
  for (unsigned one : sums)
    printf("%08x ", one);
  puts("");
}
