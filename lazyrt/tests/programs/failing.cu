// Errors: which one is the last, what a fault leaves behind (docs/design/hardware-behaviour.md), and what a forked child
// is told. Every case also holds natively; on H100s those of faults do, with and without MPS, and those of forks do not.

#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void nothing() {}
__global__ void fill(int *values, int value) { values[threadIdx.x] = value; }
__global__ void beyond(int *values) { values[size_t(1) << 36] = 1; }

static const int COUNT = 64;
static const size_t BYTES = COUNT * sizeof(int);
static const size_t MORE_THAN_ANY = size_t(1) << 50;

static int *object() {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, BYTES));
  return static_cast<int *>(pointer);
}

// A launch that the runtime refuses, and an allocation that MGB refuses, in both orders.
static void last_error() {
  void *pointer = nullptr;
  nothing<<<1, 5000>>>();
  const cudaError_t refused = cudaPeekAtLastError();
  EXPECT(refused != cudaSuccess);
  IS(cudaMalloc(&pointer, MORE_THAN_ANY), cudaErrorMemoryAllocation);
  IS(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  nothing<<<1, 5000>>>();
  IS(cudaPeekAtLastError(), refused);
  IS(cudaGetLastError(), refused);
  OK(cudaPeekAtLastError());
  OK(cudaGetLastError());
  nothing<<<1, 5000>>>();
  IS(cudaMalloc(&pointer, MORE_THAN_ANY), cudaErrorMemoryAllocation);
  IS(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaGetLastError());
  // An error of a function without a treatment of MGB's own, after one of MGB's.
  IS(cudaMalloc(&pointer, MORE_THAN_ANY), cudaErrorMemoryAllocation);
  int value = 0;
  IS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99), cudaErrorInvalidDevice);
  IS(cudaGetLastError(), cudaErrorInvalidDevice);
  OK(cudaGetLastError());
}

// What was there before a fault, and what is asked for after it, answers the fault; after a reset there is no device any
// more.
static void fault() {
  int *values = object();
  cudaStream_t stream;
  cudaEvent_t event;
  OK(cudaStreamCreate(&stream));
  beyond<<<1, 1>>>(values);
  IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  OK(cudaSetDevice(0));
  void *pointer = nullptr;
  size_t free = 0, total = 0;
  cudaStream_t other;
  IS(cudaMalloc(&pointer, 100), cudaErrorIllegalAddress);
  IS(cudaMallocHost(&pointer, 100), cudaErrorIllegalAddress);
  IS(cudaMallocManaged(&pointer, 100), cudaErrorIllegalAddress);
  IS(cudaMemGetInfo(&free, &total), cudaErrorIllegalAddress);
  IS(cudaEventCreate(&event), cudaErrorIllegalAddress);
  IS(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaErrorIllegalAddress);
  IS(cudaStreamCreate(&other), cudaErrorIllegalAddress);
  IS(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaErrorIllegalAddress);
  IS(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  IS(cudaMemset(values, 0, BYTES), cudaErrorIllegalAddress);
  IS(cudaFree(values), cudaErrorIllegalAddress);
  nothing<<<1, 1>>>();
  IS(cudaPeekAtLastError(), cudaErrorIllegalAddress);
  for (int round = 0; round < 2; round++) {
    OK(cudaDeviceReset());
    IS(cudaGetLastError(), round == 0 ? cudaErrorIllegalAddress : cudaSuccess);
    IS(cudaMalloc(&pointer, 100), cudaErrorDevicesUnavailable);
    IS(cudaMallocHost(&pointer, 100), cudaErrorDevicesUnavailable);
    IS(cudaMallocManaged(&pointer, 100), cudaErrorDevicesUnavailable);
    IS(cudaMemGetInfo(&free, &total), cudaErrorDevicesUnavailable);
    IS(cudaEventCreate(&event), cudaErrorDevicesUnavailable);
    IS(cudaStreamCreate(&other), cudaErrorDevicesUnavailable);
    IS(cudaDeviceSynchronize(), cudaErrorDevicesUnavailable);
    IS(cudaFree(nullptr), cudaErrorDevicesUnavailable);
    IS(cudaSetDevice(0), cudaErrorDevicesUnavailable);
    nothing<<<1, 1>>>();
    IS(cudaGetLastError(), cudaErrorDevicesUnavailable);
  }
  int count = 0;
  OK(cudaGetDeviceCount(&count));
}

// A fault is the process's, whichever call is told of it first: a device that has a context answers it, also behind a
// reset of another, and no new context can be made.
static void beside_a_fault(bool is_late) {
  OK(cudaSetDevice(1));
  int *there = object();
  fill<<<1, COUNT>>>(there, 4);
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(0));
  int *values = object();
  beyond<<<1, 1>>>(values);
  if (!is_late)
    IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  OK(cudaSetDevice(1));
  void *pointer = nullptr;
  if (is_late) {
    // Then the kernel has faulted before anybody asks for its device. A GPU's driver knows of that later than after
    // 100 ms.
    usleep(500000);
    cudaMalloc(&pointer, size_t(8) << 20);
    cudaDeviceSynchronize();
  }
  IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  IS(cudaMalloc(&pointer, 100), cudaErrorIllegalAddress);
  IS(cudaMemset(there, 0, BYTES), cudaErrorIllegalAddress);
  nothing<<<1, 1>>>();
  IS(cudaGetLastError(), cudaErrorIllegalAddress);
  OK(cudaDeviceReset());
  IS(cudaSetDevice(1), cudaErrorDevicesUnavailable);
  IS(cudaMalloc(&pointer, 100), cudaErrorDevicesUnavailable);
  OK(cudaSetDevice(0));
  IS(cudaMalloc(&pointer, 100), cudaErrorIllegalAddress);
}

static void other_device() { beside_a_fault(false); }
static void other_device_late() { beside_a_fault(true); }

// A device that the program had not used before has nothing to answer with.
static void new_device() {
  int *values = object();
  beyond<<<1, 1>>>(values);
  IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  void *pointer = nullptr;
  IS(cudaSetDevice(1), cudaErrorDevicesUnavailable);
  IS(cudaMalloc(&pointer, 100), cudaErrorDevicesUnavailable);
  IS(cudaDeviceSynchronize(), cudaErrorDevicesUnavailable);
  nothing<<<1, 1>>>();
  IS(cudaGetLastError(), cudaErrorDevicesUnavailable);
  OK(cudaSetDevice(0));
  IS(cudaMalloc(&pointer, 100), cudaErrorIllegalAddress);
}

static int in_child(void (*body)()) {
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void cannot_begin() {
  void *pointer = nullptr;
  cudaStream_t stream;
  size_t free = 0, total = 0;
  int count = 0;
  IS(cudaGetDeviceCount(&count), cudaErrorInitializationError);
  IS(cudaSetDevice(0), cudaErrorInitializationError);
  IS(cudaMalloc(&pointer, 100), cudaErrorInitializationError);
  IS(cudaMallocManaged(&pointer, 100), cudaErrorInitializationError);
  IS(cudaStreamCreate(&stream), cudaErrorInitializationError);
  IS(cudaMemGetInfo(&free, &total), cudaErrorInitializationError);
  IS(cudaDeviceSynchronize(), cudaErrorInitializationError);
  IS(cudaGetLastError(), cudaErrorInitializationError);
  OK(cudaGetLastError());
  OK(cudaDriverGetVersion(&count));
  cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  EXPECT(format.x == 8 && format.y == 0);
}

// Whatever has the runtime initialise the driver leaves children without CUDA: a count is enough.
static void fork_after_count() {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  EXPECT(in_child(cannot_begin) == 0);
}

static void fork_after_properties() {
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(in_child(cannot_begin) == 0);
}

static void fork_after_work() {
  int *values = object();
  fill<<<1, COUNT>>>(values, 1);
  OK(cudaDeviceSynchronize());
  EXPECT(in_child(cannot_begin) == 0);
}

// A version initialises nothing.
static void fork_after_version() {
  int version = 0;
  OK(cudaRuntimeGetVersion(&version));
  OK(cudaDriverGetVersion(&version));
  EXPECT(in_child([] { EXPECT(object() != nullptr); }) == 0);
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(last_error),       CASE(fault),
                        CASE(other_device),     CASE(other_device_late), CASE(new_device),
                        CASE(fork_after_count), CASE(fork_after_work),
                        CASE(fork_after_properties), CASE(fork_after_version)};
  return play(argc, argv, cases);
}
