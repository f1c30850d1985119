// Programs that spread their work over devices themselves, one case per argument. Every case also holds natively,
// except where it says "mgb". There are two devices or more, and each has 64 MiB.

#include "check.h"
#include <thread>
#include <vector>

__global__ void add(unsigned char *bytes, size_t count, int value) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

__device__ int factor = 3;
__device__ int launches;
__global__ void scale(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] *= factor;
  if (i == 0)
    launches++;
}

static int devices() {
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  EXPECT(count >= 2);
  return 2;
}

static void make(Box &box, size_t bytes) {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, bytes));
  box.pointer = static_cast<unsigned char *>(pointer);
  box.bytes = bytes;
}

static void run(const Box &box, int value, cudaStream_t stream = 0) {
  add<<<unsigned((box.bytes + 127) / 128), 128, 0, stream>>>(box.pointer, box.bytes, value);
  OK(cudaGetLastError());
}

static void check(const Box &box, int value) {
  std::vector<unsigned char> host(box.bytes);
  OK(cudaMemcpy(host.data(), box.pointer, box.bytes, cudaMemcpyDeviceToHost));
  for (unsigned char byte : host)
    EXPECT(byte == (unsigned char)value);
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
        EXPECT(got.type == cudaMemoryTypeDevice && got.device == d);
        EXPECT(got.devicePointer == boxes[d].pointer + at && got.hostPointer == nullptr);
      }
    int local = 0;
    OK(cudaPointerGetAttributes(&got, &local));
    EXPECT(got.type == cudaMemoryTypeUnregistered && got.device == cudaInvalidDeviceId);
    EXPECT(got.devicePointer == nullptr && got.hostPointer == &local);
    for (int d = 0; d < devices(); d++)
      OK(cudaMemset(boxes[d].pointer, 1, boxes[d].bytes));
    for (int d = 0; d < devices(); d++) {
      OK(cudaSetDevice(d));
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

struct Case {
  const char *name;
  void (*run)();
};

int main(int argc, char **argv) {
  const Case cases[] = {
      {"spread", spread},         {"variables", variables}, {"workers", workers},
      {"attributes", attributes}, {"reset_one", reset_one},
  };
  for (const Case &one : cases)
    if (argc > 1 && strcmp(argv[1], one.name) == 0) {
      one.run();
      printf("%s: PASS\n", one.name);
      return 0;
    }
  fprintf(stderr, "no such case\n");
  return 2;
}
