// Memory outside the arena: pools, managed memory, arrays. One case per argument; every case also holds natively,
// except that those named hold_ need room that natively nobody waits for.

#include "check.h"
#include <unistd.h>
#include <vector>

__global__ void add(unsigned char *bytes, size_t count, int value) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

static void run(void *bytes, size_t count, int value, cudaStream_t stream = 0) {
  add<<<unsigned((count + 127) / 128), 128, 0, stream>>>(static_cast<unsigned char *>(bytes), count, value);
  OK(cudaGetLastError());
}

static void check(const void *bytes, size_t count, int value) {
  std::vector<unsigned char> host(count);
  OK(cudaMemcpy(host.data(), bytes, count, cudaMemcpyDefault));
  for (unsigned char byte : host)
    EXPECT(byte == (unsigned char)value);
}

static size_t left() {
  size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  return free;
}

// Allocation in stream order, over and over, and more at once than before.
static void pools() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  size_t before = left();
  void *pointer = nullptr;
  for (int round = 0; round < 60; round++) {
    size_t bytes = size_t(1 + round % 5) << 20;
    OK(cudaMallocAsync(&pointer, bytes, stream));
    OK(cudaMemsetAsync(pointer, round, bytes, stream));
    run(pointer, bytes, 1, stream);
    if (round % 8 == 0) {
      OK(cudaStreamSynchronize(stream));
      check(pointer, bytes, round + 1);
    }
    OK(cudaFreeAsync(pointer, stream));
  }
  OK(cudaStreamSynchronize(stream));
  std::vector<void *> all;
  for (int i = 0; i < 5; i++) {
    OK(cudaMallocAsync(&pointer, 7 << 20, stream));
    OK(cudaMemsetAsync(pointer, i, 7 << 20, stream));
    all.push_back(pointer);
  }
  OK(cudaStreamSynchronize(stream));
  EXPECT(left() + (35 << 20) <= before);
  for (int i = 0; i < 5; i++)
    check(all[i], 7 << 20, i);
  OK(cudaFree(all[0]));
  for (int i = 1; i < 5; i++)
    OK(cudaFreeAsync(all[i], stream));
  OK(cudaDeviceSynchronize());
  EXPECT(left() + (8 << 20) > before);
  // Nearly all of the device, twice: what the pool kept makes place.
  for (int i = 0; i < 2; i++) {
    OK(cudaMallocAsync(&pointer, 44 << 20, stream));
    run(pointer, 44 << 20, 1, stream);
    OK(cudaFreeAsync(pointer, stream));
    OK(cudaStreamSynchronize(stream));
  }
  IS(cudaMallocAsync(&pointer, size_t(1) << 40, stream), cudaErrorMemoryAllocation);
  IS(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaStreamSynchronize(stream));

  // A pool of the program's own.
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  OK(cudaMemPoolCreate(&pool, &properties));
  unsigned long long keep = ~0ull;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  OK(cudaMallocFromPoolAsync(&pointer, 20 << 20, pool, stream));
  run(pointer, 20 << 20, 1, stream);
  OK(cudaStreamSynchronize(stream));
  EXPECT(left() + (20 << 20) <= before);
  OK(cudaFreeAsync(pointer, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolTrimTo(pool, 0));
  OK(cudaMemPoolDestroy(pool));
  EXPECT(left() + (8 << 20) > before);
  OK(cudaStreamDestroy(stream));
}

// Captured allocations: taken by the first launch, kept until they are trimmed.
static cudaGraphExec_t captured(size_t bytes, int rounds) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int round = 0; round < rounds; round++) {
    void *pointer = nullptr;
    OK(cudaMallocAsync(&pointer, bytes, stream));
    add<<<unsigned((bytes + 127) / 128), 128, 0, stream>>>(static_cast<unsigned char *>(pointer), bytes, 1);
    OK(cudaFreeAsync(pointer, stream));
  }
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  return executable;
}
static void graph_memory() {
  OK(cudaFree(nullptr));
  size_t before = left();
  cudaGraphExec_t first = captured(20 << 20, 1);
  EXPECT(left() == before);
  for (int round = 0; round < 3; round++) {
    OK(cudaGraphLaunch(first, 0));
    OK(cudaDeviceSynchronize());
    EXPECT(left() + (20 << 20) <= before && left() + (30 << 20) >= before);
  }
  // More than there is beside it, unless that is given back.
  cudaGraphExec_t second = captured(40 << 20, 1);
  OK(cudaGraphLaunch(second, 0));
  OK(cudaDeviceSynchronize());
  OK(cudaGraphExecDestroy(second));
  OK(cudaDeviceGraphMemTrim(0));
  EXPECT(left() + (4 << 20) >= before);
  OK(cudaGraphLaunch(first, 0));
  OK(cudaDeviceSynchronize());
  EXPECT(left() + (20 << 20) <= before);
  OK(cudaGraphExecDestroy(first));
  OK(cudaDeviceGraphMemTrim(0));
  cudaGraphExec_t never = captured(size_t(1) << 35, 1);
  IS(cudaGraphLaunch(never, 0), cudaErrorMemoryAllocation);
  IS(cudaGetLastError(), cudaErrorMemoryAllocation);
  OK(cudaGraphExecDestroy(never));
  OK(cudaDeviceSynchronize());
  EXPECT(left() + (4 << 20) >= before);
}

// Managed memory, for the host and the device in turns.
static void managed() {
  size_t before = left();
  unsigned char *bytes = nullptr;
  OK(cudaMallocManaged(&bytes, 0));
  EXPECT(bytes == nullptr);
  IS(cudaMallocManaged(&bytes, 1, cudaMemAttachSingle), cudaErrorInvalidValue);
  cudaGetLastError();
  for (int round = 0; round < 5; round++) {
    OK(cudaMallocManaged(&bytes, 20 << 20));
    memset(bytes, 3, 20 << 20);
    run(bytes, 20 << 20, 4);
    OK(cudaDeviceSynchronize());
    for (size_t i = 0; i < 20 << 20; i++)
      EXPECT(bytes[i] == 7);
    void *other = nullptr;
    OK(cudaMalloc(&other, 20 << 20));
    OK(cudaMemcpy(other, bytes, 20 << 20, cudaMemcpyDefault));
    run(other, 20 << 20, 1);
    check(other, 20 << 20, 8);
    OK(cudaFree(other));
    OK(cudaFree(bytes));
  }
  EXPECT(left() == before);
}

// Arrays, made and freed: nothing stays.
static void arrays() {
  size_t before = left();
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  for (int round = 0; round < 10; round++) {
    cudaArray_t plane, volume;
    OK(cudaMallocArray(&plane, &format, 1000, 500));
    OK(cudaMalloc3DArray(&volume, &format, make_cudaExtent(100, 100, 100), 0));
    std::vector<float> host(500000), back(500000);
    for (size_t i = 0; i < host.size(); i++)
      host[i] = float(i + round);
    OK(cudaMemcpy2DToArray(plane, 0, 0, host.data(), 4000, 4000, 500, cudaMemcpyHostToDevice));
    void *rows = nullptr;
    OK(cudaMalloc(&rows, 4000 * 500));
    OK(cudaMemcpy2DFromArray(rows, 4000, plane, 0, 0, 4000, 500, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(back.data(), rows, 4000 * 500, cudaMemcpyDeviceToHost));
    EXPECT(host == back);
    OK(cudaFree(rows));
    OK(cudaFreeArray(plane));
    OK(cudaFreeArray(volume));
  }
  cudaArray_t none;
  IS(cudaMallocArray(&none, &format, 0, 5), cudaErrorInvalidValue);
  IS(cudaMalloc3DArray(&none, &format, make_cudaExtent(4096, 4096, 4096), 0), cudaErrorMemoryAllocation);
  cudaGetLastError();
  EXPECT(left() == before);
}

// More than half of the device for a while.
static void hold_async() {
  void *pointer = nullptr;
  OK(cudaMallocAsync(&pointer, 36 << 20, 0));
  OK(cudaMemset(pointer, 1, 36 << 20));
  usleep(100000);
  run(pointer, 36 << 20, 1);
  check(pointer, 36 << 20, 2);
  OK(cudaFreeAsync(pointer, 0));
}

static void hold_graph() {
  cudaGraphExec_t executable = captured(40 << 20, 1);
  for (int round = 0; round < 3; round++) {
    OK(cudaGraphLaunch(executable, 0));
    OK(cudaDeviceSynchronize());
    usleep(20000);
  }
  OK(cudaGraphExecDestroy(executable));
}

static void hold_managed() {
  unsigned char *bytes = nullptr;
  OK(cudaMallocManaged(&bytes, 36 << 20));
  memset(bytes, 5, 36 << 20);
  usleep(100000);
  run(bytes, 36 << 20, 1);
  OK(cudaDeviceSynchronize());
  EXPECT(bytes[(36 << 20) - 1] == 6);
  OK(cudaFree(bytes));
}

static void hold_array() {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
  cudaArray_t array;
  OK(cudaMallocArray(&array, &format, 1024, 36 << 6));
  std::vector<float> host(4096, 3), back(4096);
  OK(cudaMemcpy2DToArray(array, 0, 2303, host.data(), 16384, 16384, 1, cudaMemcpyHostToDevice));
  usleep(100000);
  OK(cudaMemcpy2DFromArray(back.data(), 16384, array, 0, 2303, 16384, 1, cudaMemcpyDeviceToHost));
  EXPECT(host == back);
  OK(cudaFreeArray(array));
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(pools), CASE(graph_memory), CASE(managed), CASE(arrays), CASE(hold_async), CASE(hold_graph), CASE(hold_managed), CASE(hold_array),
  };
  return play(argc, argv, cases);
}
