// Programs that spread their work over devices themselves, one case per argument. Every case also holds natively.

#include "devices.h"
#include <unistd.h>
#include <thread>

__device__ int factor = 3;
__device__ int launches;
__global__ void scale(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] *= factor;
  if (i == 0)
    launches++;
}

// More than one device holds, in turns; whatever is current, the objects stay where they were made.
static void spread() {
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 40 << 20);
    OK(cudaMemset(boxes[d].pointer, d, boxes[d].bytes));
  }
  for (int round = 0; round < 3; round++)
    for (int d = devices(); d-- > 0;) {
      OK(cudaSetDevice(d));
      run(boxes[d], 1 + d);
    }
  OK(cudaSetDevice(0));
  OK(cudaDeviceSynchronize());
  for (int d = 0; d < devices(); d++) {
    check(boxes[d], d + 3 * (1 + d));
    size_t free = 0, total = 0;
    OK(cudaSetDevice(d));
    OK(cudaMemGetInfo(&free, &total));
    EXPECT(free < (24 << 20));
    OK(cudaFree(boxes[d].pointer));
    OK(cudaMemGetInfo(&free, &total));
    EXPECT(free > (40 << 20));
  }
}

// A device variable has one value per device.
static void variables() {
  for (int d = 0; d < devices(); d++) {
    int value = 10 + d;
    OK(cudaSetDevice(d));
    OK(cudaMemcpyToSymbol(factor, &value, sizeof value));
    make(boxes[d], 64 * sizeof(int));
  }
  for (int d = devices(); d-- > 0;) {
    int host[64];
    for (int i = 0; i < 64; i++)
      host[i] = i;
    OK(cudaSetDevice(d));
    OK(cudaMemcpy(boxes[d].pointer, host, sizeof host, cudaMemcpyHostToDevice));
    for (int times = 0; times <= d; times++)
      scale<<<2, 32>>>(reinterpret_cast<int *>(boxes[d].pointer), 64);
    OK(cudaGetLastError());
  }
  for (int d = 0; d < devices(); d++) {
    int value = 0, host[64];
    OK(cudaSetDevice(d));
    OK(cudaMemcpy(host, boxes[d].pointer, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
      EXPECT(host[i] == (d == 0 ? 10 * i : 121 * i));
    OK(cudaMemcpyFromSymbol(&value, factor, sizeof value));
    EXPECT(value == 10 + d);
    OK(cudaMemcpyFromSymbol(&value, launches, sizeof value));
    EXPECT(value == d + 1);
  }
}

// A thread for each device, with streams and events of its own.
static void workers() {
  std::vector<std::thread> all;
  for (int d = 0; d < devices(); d++)
    all.emplace_back([d] {
      OK(cudaSetDevice(d));
      cudaStream_t stream;
      cudaEvent_t event;
      OK(cudaStreamCreate(&stream));
      OK(cudaEventCreate(&event));
      make(boxes[d], 36 << 20);
      OK(cudaMemsetAsync(boxes[d].pointer, 5, boxes[d].bytes, stream));
      for (int round = 0; round < 4; round++)
        run(boxes[d], d + 1, stream);
      OK(cudaEventRecord(event, stream));
      OK(cudaEventSynchronize(event));
      check(boxes[d], 5 + 4 * (d + 1));
      OK(cudaEventDestroy(event));
      OK(cudaStreamDestroy(stream));
      OK(cudaFree(boxes[d].pointer));
    });
  for (std::thread &thread : all)
    thread.join();
  // This thread never chose one.
  int device = -1;
  OK(cudaGetDevice(&device));
  EXPECT(device == 0);
}

// What pointers are, before anything runs and after.
static void attributes() {
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 3 << 20);
  }
  for (int round = 0; round < 2; round++) {
    cudaPointerAttributes got;
    for (int d = 0; d < devices(); d++)
      for (size_t at : {size_t(0), size_t(12345), boxes[d].bytes - 1}) {
        OK(cudaPointerGetAttributes(&got, boxes[d].pointer + at));
        EXPECT(got.type == cudaMemoryTypeDevice && got.device == d && got.hostPointer == nullptr);
        // The other devices are not reached from the current one.
        EXPECT(got.devicePointer == (d == devices() - 1 ? boxes[d].pointer + at : nullptr));
      }
    int local = 0;
    OK(cudaPointerGetAttributes(&got, &local));
    EXPECT(got.type == cudaMemoryTypeUnregistered && got.device == cudaInvalidDeviceId);
    EXPECT(got.devicePointer == nullptr && got.hostPointer == &local);
    for (int d = 0; d < devices(); d++) {
      OK(cudaSetDevice(d));
      OK(cudaMemset(boxes[d].pointer, 1, boxes[d].bytes));
      run(boxes[d], 1);
    }
  }
  unsigned char *gone = boxes[0].pointer;
  OK(cudaFree(gone));
  cudaPointerAttributes got;
  OK(cudaPointerGetAttributes(&got, gone));
  EXPECT(got.type == cudaMemoryTypeUnregistered && got.hostPointer == gone);
  IS(cudaPointerGetAttributes(nullptr, gone), cudaErrorInvalidValue);
}

// A reset is of one device.
static void reset_one() {
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 3 << 20);
    OK(cudaMemset(boxes[d].pointer, 7, boxes[d].bytes));
    run(boxes[d], d);
  }
  OK(cudaDeviceReset());
  IS(cudaFree(boxes[1].pointer), cudaErrorInvalidValue);
  cudaGetLastError();
  check(boxes[0], 7);
  OK(cudaSetDevice(0));
  run(boxes[0], 1);
  check(boxes[0], 8);
  OK(cudaSetDevice(1));
  make(boxes[1], 3 << 20);
  OK(cudaMemset(boxes[1].pointer, 1, boxes[1].bytes));
  run(boxes[1], 1);
  check(boxes[1], 2);
}

// Pools and advice name devices by number: the program's.
static void numbers() {
  size_t before[2], free = 0, total = 0;
  cudaMemPool_t pools[2], own;
  // In this order, so that the numbers are not the GPUs' own.
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    OK(cudaMemGetInfo(&before[d], &total));
    OK(cudaDeviceGetDefaultMemPool(&pools[d], d));
    unsigned long long keep = ~0ull;
    OK(cudaMemPoolSetAttribute(pools[d], cudaMemPoolAttrReleaseThreshold, &keep));
  }
  EXPECT(pools[0] != pools[1]);
  OK(cudaSetDevice(1));
  // What is taken from the one's pool lies on the one.
  void *pointer = nullptr;
  cudaPointerAttributes got;
  OK(cudaMallocFromPoolAsync(&pointer, 30 << 20, pools[1], 0));
  OK(cudaStreamSynchronize(0));
  OK(cudaPointerGetAttributes(&got, pointer));
  EXPECT(got.type == cudaMemoryTypeDevice && got.device == 1);
  OK(cudaMemGetInfo(&free, &total));
  EXPECT(free + (30 << 20) <= before[1]);
  OK(cudaSetDevice(0));
  OK(cudaMemGetInfo(&free, &total));
  EXPECT(free + (8 << 20) > before[0]);
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  OK(cudaMemPoolCreate(&own, &properties));
  OK(cudaDeviceSetMemPool(0, own));
  OK(cudaDeviceGetMemPool(&pools[0], 0));
  EXPECT(pools[0] == own);
  IS(cudaDeviceSetMemPool(1, own), cudaErrorInvalidValue);
  IS(cudaDeviceGetMemPool(&own, 99), cudaErrorInvalidValue);
  cudaGetLastError();
  unsigned char *bytes = nullptr;
  OK(cudaMallocManaged(&bytes, 1 << 20));
  OK(cudaMemAdvise(bytes, 1 << 20, cudaMemAdviseSetPreferredLocation, {cudaMemLocationTypeDevice, 1}));
  OK(cudaMemPrefetchAsync(bytes, 1 << 20, {cudaMemLocationTypeDevice, 0}, 0));
  OK(cudaDeviceSynchronize());
  IS(cudaMemAdvise(bytes, 1 << 20, cudaMemAdviseSetPreferredLocation, {cudaMemLocationTypeDevice, 99}),
     cudaErrorInvalidValue);
}

// A device that is on no GPU yet waits for another's event, in its default stream.
static void first_waits() {
  OK(cudaSetDevice(0));
  make(boxes[0], 16 << 20);
  OK(cudaMemset(boxes[0].pointer, 0, boxes[0].bytes));
  OK(cudaDeviceSynchronize());
  cudaEvent_t event;
  OK(cudaEventCreate(&event));
  for (int round = 0; round < 4; round++)
    run(boxes[0], 1);
  OK(cudaEventRecord(event, 0));
  OK(cudaSetDevice(devices() - 1));
  make(boxes[1], 1 << 20);
  OK(cudaStreamWaitEvent(0, event, 0));
  std::vector<unsigned char> host(boxes[1].bytes, 7);
  OK(cudaMemcpy(boxes[1].pointer, host.data(), host.size(), cudaMemcpyHostToDevice));
  run(boxes[1], 1);
  check(boxes[1], 8);
  OK(cudaEventQuery(event));
}

static void CUDART_CB be_late(void *flag) {
  usleep(50000);
  *static_cast<volatile int *>(flag) = 1;
}

// A function of the host in a stream of a device: its default stream comes after it, wherever the thread was last.
static void functions_first() {
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 1 << 20);
    OK(cudaMemset(boxes[d].pointer, d, boxes[d].bytes));
    OK(cudaDeviceSynchronize());
  }
  run(boxes[1], 1);
  OK(cudaSetDevice(0));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  volatile int flag = 0;
  OK(cudaLaunchHostFunc(stream, be_late, const_cast<int *>(&flag)));
  check(boxes[0], 0);
  EXPECT(flag == 1);
  OK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(spread), CASE(variables), CASE(workers),
      CASE(attributes), CASE(reset_one), CASE(numbers), CASE(first_waits), CASE(functions_first),
  };
  return play(argc, argv, cases);
}
