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
     cudaErrorInvalidDevice);
}

static int preferred(void *managed, size_t bytes) {
  int where = -7;
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributePreferredLocation, managed, bytes));
  return where;
}

// Places in structures name devices by number, and so do answers: all are the program's.
static void places() {
  cudaMemLocation place[2], wrong = {cudaMemLocationTypeDevice, 99};
  // In this order, so that the numbers are not the GPUs' own.
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    make(boxes[d], 1 << 20);
    run(boxes[d], 0);
    place[d] = {cudaMemLocationTypeDevice, d};
  }
  for (int d = 0; d < 2; d++) {
    cudaMemPool_t own, pool;
    OK(cudaDeviceGetDefaultMemPool(&own, d));
    OK(cudaMemGetDefaultMemPool(&pool, &place[d], cudaMemAllocationTypePinned));
    EXPECT(pool == own);
    OK(cudaMemSetMemPool(&place[d], cudaMemAllocationTypePinned, own));
    IS(cudaMemSetMemPool(&place[1 - d], cudaMemAllocationTypePinned, own), cudaErrorInvalidValue);
    OK(cudaMemGetMemPool(&pool, &place[d], cudaMemAllocationTypePinned));
    EXPECT(pool == own);
    void *pointer = nullptr;
    cudaPointerAttributes got;
    OK(cudaSetDevice(d));
    OK(cudaMallocAsync(&pointer, 1 << 20, 0));
    OK(cudaPointerGetAttributes(&got, pointer));
    EXPECT(got.device == d);
    OK(cudaFreeAsync(pointer, 0));
  }
  cudaMemPool_t pool;
  IS(cudaMemGetMemPool(&pool, &wrong, cudaMemAllocationTypePinned), cudaErrorInvalidValue);
  cudaGetLastError();

  unsigned char *managed = nullptr;
  size_t bytes = 2 << 20, first = 0;
  cudaStream_t stream;
  OK(cudaSetDevice(0));
  OK(cudaStreamCreate(&stream));
  OK(cudaMallocManaged(&managed, bytes));
  void *all[] = {managed};
  for (int d = 0; d < 2; d++) {
    OK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetPreferredLocation, place[d]));
    EXPECT(preferred(managed, bytes) == d);
    OK(cudaMemPrefetchBatchAsync(all, &bytes, 1, &place[d], &first, 1, 0, stream));
    OK(cudaStreamSynchronize(stream));
    int where = -7, id = -7, kind = -7;
    void *answers[] = {&where, &kind, &id};
    size_t rooms[] = {sizeof where, sizeof kind, sizeof id};
    cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeLastPrefetchLocation, cudaMemRangeAttributePreferredLocationType,
                                     cudaMemRangeAttributePreferredLocationId};
    OK(cudaMemRangeGetAttributes(answers, rooms, asked, 3, managed, bytes));
    EXPECT(where == d && kind == cudaMemLocationTypeDevice && id == d);
    OK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetAccessedBy, place[d]));
    int users[3];
    OK(cudaMemRangeGetAttribute(users, sizeof users, cudaMemRangeAttributeAccessedBy, managed, bytes));
    EXPECT((users[0] == d || users[1] == d) && users[2] == cudaInvalidDeviceId);
    OK(cudaMemAdvise(managed, bytes, cudaMemAdviseUnsetAccessedBy, place[d]));
  }
  OK(cudaMemAdvise(managed, bytes, cudaMemAdviseSetPreferredLocation, {cudaMemLocationTypeHost, 0}));
  EXPECT(preferred(managed, bytes) == cudaCpuDeviceId);
  IS(cudaMemPrefetchBatchAsync(all, &bytes, 1, &wrong, &first, 1, 0, stream), cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaFree(managed));
  OK(cudaStreamDestroy(stream));
}

// Batches of copies over the memory of both devices, with hints where it is, in the order of a stream.
static void batches() {
  std::vector<unsigned char> host(1 << 20, 5);
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    make(boxes[d], 1 << 20);
  }
  const size_t half = 1 << 19;
  for (int d = 0; d < 2; d++) {
    for (int other : {1 - d, d}) {
      OK(cudaSetDevice(other));
      OK(cudaMemset(boxes[other].pointer, 0, boxes[other].bytes));
      OK(cudaDeviceSynchronize());
    }
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    cudaMemcpyAttributes asked[2] = {};
    for (cudaMemcpyAttributes &one : asked)
      one.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    asked[0].dstLocHint = {cudaMemLocationTypeDevice, 1};
    asked[1].srcLocHint = {cudaMemLocationTypeDevice, 1};
    size_t starts[] = {0, 1}, sizes[] = {half, half};
    void *to[] = {boxes[1].pointer, boxes[0].pointer + half};
    const void *from[] = {host.data(), boxes[1].pointer + half};
    run(boxes[d], 2, stream);
    OK(cudaMemcpyBatchAsync(to, from, sizes, 2, asked, starts, 2, stream));
    run(boxes[d], 3, stream);
    OK(cudaStreamSynchronize(stream));
    std::vector<unsigned char> back(1 << 20);
    OK(cudaMemcpy(back.data(), boxes[0].pointer, back.size(), cudaMemcpyDeviceToHost));
    EXPECT(back[0] == (d ? 0 : 5) && back[half - 1] == back[0]);
    EXPECT(back[half] == (d ? 2 : 3) && back.back() == back[half]);
    OK(cudaMemcpy(back.data(), boxes[1].pointer, back.size(), cudaMemcpyDeviceToHost));
    EXPECT(back[0] == (d ? 8 : 5) && back[half - 1] == back[0]);
    EXPECT(back[half] == (d ? 5 : 0) && back.back() == back[half]);

    // A box from the one to the other, and the other way.
    cudaMemcpy3DBatchOp both[2] = {};
    for (int at = 0; at < 2; at++) {
      both[at].src.type = both[at].dst.type = cudaMemcpyOperandTypePointer;
      both[at].src.op.ptr = {boxes[at].pointer + 100, 64, 8, {cudaMemLocationTypeDevice, at}};
      both[at].dst.op.ptr = {boxes[1 - at].pointer + half, 128, 4, {cudaMemLocationTypeDevice, 1 - at}};
      both[at].extent = {16, 4, 2};
      both[at].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    }
    OK(cudaMemcpy3DBatchAsync(2, both, 0, stream));
    OK(cudaStreamSynchronize(stream));
    IS(cudaMemcpy3DBatchAsync(2, both, 0, 0), cudaErrorInvalidValue);
    cudaGetLastError();
    unsigned char ends[2];
    OK(cudaMemcpy(ends, boxes[0].pointer + half + 128 * 7 + 15, 2, cudaMemcpyDeviceToHost));
    EXPECT(ends[0] == (d ? 8 : 5) && ends[1] == (d ? 2 : 3));
    OK(cudaMemcpy(ends, boxes[1].pointer + half + 128 * 7 + 15, 2, cudaMemcpyDeviceToHost));
    EXPECT(ends[0] == (d ? 0 : 5) && ends[1] == (d ? 5 : 0));
    sizes[1] = size_t(1) << 30;
    IS(cudaMemcpyBatchAsync(to, from, sizes, 2, asked, starts, 2, stream), cudaErrorInvalidValue);
    cudaGetLastError();
    OK(cudaStreamDestroy(stream));
  }
}

// Memory of graphs on the device that a node names.
static void graph_places() {
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    make(boxes[d], 1 << 20);
    run(boxes[d], 0);
  }
  for (int d = 0; d < 2; d++) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t first, set, last;
    cudaStream_t stream;
    OK(cudaSetDevice(d));
    OK(cudaStreamCreate(&stream));
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphNodeParams asked = {};
    asked.type = cudaGraphNodeTypeMemAlloc;
    asked.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    asked.alloc.poolProps.location = {cudaMemLocationTypeDevice, d};
    asked.alloc.bytesize = 20 << 20;
    OK(cudaGraphAddNode(&first, graph, nullptr, nullptr, 0, &asked));
    cudaPointerAttributes got;
    OK(cudaPointerGetAttributes(&got, asked.alloc.dptr));
    EXPECT(got.device == d);
    cudaMemAllocNodeParams told;
    OK(cudaGraphMemAllocNodeGetParams(first, &told));
    EXPECT(told.poolProps.location.id == d && told.dptr == asked.alloc.dptr);
    cudaMemsetParams fill = {};
    fill.dst = told.dptr;
    fill.value = 3;
    fill.elementSize = 1;
    fill.width = 20 << 20;
    fill.height = 1;
    OK(cudaGraphAddMemsetNode(&set, graph, &first, 1, &fill));
    OK(cudaGraphAddMemFreeNode(&last, graph, &set, 1, told.dptr));
    cudaGraphInstantiateParams how = {};
    how.flags = cudaGraphInstantiateFlagUpload;
    how.uploadStream = stream;
    OK(cudaGraphInstantiateWithParams(&executable, graph, &how));
    EXPECT(how.result_out == cudaGraphInstantiateSuccess);
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    for (int other = 0; other < 2; other++) {
      unsigned long long bytes = 0;
      OK(cudaDeviceGetGraphMemAttribute(other, cudaGraphMemAttrReservedMemCurrent, &bytes));
      EXPECT((bytes >= 20 << 20) == (other == d));
    }
    OK(cudaDeviceGraphMemTrim(d));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
  }
}

__global__ void gather(unsigned char **from, unsigned char *to, size_t count) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    to[i] = from[0][i] + from[1][i];
    from[1][i] = 100;
  }
}

// What CUDA says of peers.
static void peer_codes() {
  int can = -1;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT(can == 1);
  OK(cudaDeviceCanAccessPeer(&can, 0, 0));
  EXPECT(can == 0);
  OK(cudaSetDevice(0));
  IS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  IS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  IS(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT(cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess);
  IS(cudaDeviceEnablePeerAccess(99, 0), cudaErrorInvalidDevice);
  IS(cudaDeviceEnablePeerAccess(-1, 0), cudaErrorInvalidDevice);
  IS(cudaDeviceDisablePeerAccess(0), cudaErrorInvalidDevice);
  OK(cudaSetDevice(1));
  IS(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  OK(cudaDeviceEnablePeerAccess(0, 0));
  OK(cudaSetDevice(0));
  OK(cudaDeviceDisablePeerAccess(1));
  IS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  IS(cudaMemcpyPeer(nullptr, 99, nullptr, 0, 16), cudaErrorInvalidDevice);
  OK(cudaDeviceReset());
  OK(cudaDeviceEnablePeerAccess(1, 0));
  cudaGetLastError();
}

// A kernel reaches another device's objects through pointers in memory, before that device was ever used.
static void peer_kernels() {
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 33 << 20);
    OK(cudaMemset(boxes[d].pointer, 3 + d, boxes[d].bytes));
  }
  OK(cudaSetDevice(0));
  OK(cudaDeviceEnablePeerAccess(1, 0));
  unsigned char *both[] = {boxes[0].pointer, boxes[1].pointer};
  make(boxes[2], sizeof both);
  make(boxes[3], 1 << 20);
  OK(cudaMemcpy(boxes[2].pointer, both, sizeof both, cudaMemcpyHostToDevice));
  for (int round = 0; round < 2; round++) {
    gather<<<1 << 13, 128>>>(reinterpret_cast<unsigned char **>(boxes[2].pointer), boxes[3].pointer, 1 << 20);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    check(boxes[3], 7 + round);
    unsigned char ends[2];
    OK(cudaMemcpy(ends, boxes[1].pointer + (1 << 20) - 1, 2, cudaMemcpyDeviceToHost));
    EXPECT(ends[0] == 100 && ends[1] == 4);
    // Another object of the other device; the next launch finds that one too.
    OK(cudaSetDevice(1));
    make(boxes[4], 5 << 20);
    OK(cudaMemset(boxes[4].pointer, 5, boxes[4].bytes));
    OK(cudaSetDevice(0));
    unsigned char *fresh = boxes[4].pointer;
    OK(cudaMemcpy(boxes[2].pointer + sizeof(void *), &fresh, sizeof fresh, cudaMemcpyHostToDevice));
    gather<<<1 << 13, 128>>>(reinterpret_cast<unsigned char **>(boxes[2].pointer), boxes[3].pointer, 1 << 20);
    OK(cudaDeviceSynchronize());
    check(boxes[3], 8);
    OK(cudaFree(boxes[4].pointer));
    OK(cudaMemcpy(boxes[2].pointer, both, sizeof both, cudaMemcpyHostToDevice));
    OK(cudaMemset(boxes[1].pointer, 5, 1 << 20));
    OK(cudaMemset(boxes[1].pointer + (1 << 20), 4, 1));
  }
}

__device__ unsigned char table[256];

// Copies from one device to the other in all ways that there are.
static void peer_copies() {
  const size_t pitch = 512, rows = 100, bytes = 34 << 20;
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], bytes);
    OK(cudaMemset(boxes[d].pointer, 1 + d, bytes));
  }
  OK(cudaSetDevice(0));
  run(boxes[0], 10);
  OK(cudaMemcpyPeer(boxes[1].pointer, 1, boxes[0].pointer, 0, bytes));
  check(boxes[1], 11);
  run(boxes[0], 1);
  OK(cudaMemcpyPeerAsync(boxes[1].pointer, 1, boxes[0].pointer, 0, bytes, 0));
  OK(cudaDeviceSynchronize());
  check(boxes[1], 12);
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  run(boxes[0], 1, stream);
  OK(cudaMemcpyPeerAsync(boxes[1].pointer, 1, boxes[0].pointer, 0, bytes, stream));
  OK(cudaStreamSynchronize(stream));
  check(boxes[1], 13);
  run(boxes[0], 1, stream);
  OK(cudaMemcpyAsync(boxes[1].pointer, boxes[0].pointer, bytes, cudaMemcpyDefault, stream));
  OK(cudaStreamSynchronize(stream));
  check(boxes[1], 14);
  OK(cudaMemset(boxes[0].pointer, 50, bytes));
  OK(cudaMemcpy(boxes[1].pointer, boxes[0].pointer, bytes, cudaMemcpyDeviceToDevice));
  check(boxes[1], 50);

  // Rows and boxes: every second byte of a row and no byte beside it.
  OK(cudaMemset(boxes[0].pointer, 60, bytes));
  OK(cudaMemcpy2D(boxes[1].pointer, pitch, boxes[0].pointer + 7, 2 * pitch, 100, rows, cudaMemcpyDeviceToDevice));
  std::vector<unsigned char> host(pitch * rows);
  OK(cudaMemcpy(host.data(), boxes[1].pointer, host.size(), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); i++)
    EXPECT(host[i] == (i % pitch < 100 ? 60 : 50));
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(boxes[0].pointer, pitch, pitch, 20);
  box.dstPtr = make_cudaPitchedPtr(boxes[1].pointer, pitch, pitch, 10);
  box.dstPos = make_cudaPos(200, 1, 2);
  box.extent = make_cudaExtent(50, 3, 4);
  box.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3DAsync(&box, stream));
  OK(cudaStreamSynchronize(stream));
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = box.srcPtr;
  peer.dstPtr = box.dstPtr;
  peer.dstPos = make_cudaPos(300, 1, 2);
  peer.srcDevice = 0;
  peer.dstDevice = 1;
  peer.extent = box.extent;
  OK(cudaMemcpy3DPeer(&peer));
  peer.dstDevice = 77;
  IS(cudaMemcpy3DPeer(&peer), cudaErrorInvalidDevice);
  cudaGetLastError();
  OK(cudaMemcpy(host.data(), boxes[1].pointer, host.size(), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); i++) {
    size_t x = i % pitch, y = i / pitch % 10, z = i / pitch / 10;
    bool inside = y >= 1 && y < 4 && z >= 2 && z < 6;
    bool copied = x < 100 || (inside && ((x >= 200 && x < 250) || (x >= 300 && x < 350)));
    EXPECT(host[i] == (copied ? 60 : 50));
  }

  // A variable of one device, memory of the other.
  OK(cudaMemset(boxes[1].pointer, 70, 256));
  OK(cudaMemcpyToSymbol(table, boxes[1].pointer, 200, 10, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpyFromSymbol(boxes[1].pointer + 1000, table, 256, 0, cudaMemcpyDeviceToDevice));
  IS(cudaMemcpyToSymbol(table, boxes[1].pointer, 200, 100, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaMemcpy(host.data(), boxes[1].pointer + 1000, 256, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < 256; i++)
    EXPECT(host[i] == (i >= 10 && i < 210 ? 70 : 0));
  OK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(spread), CASE(variables), CASE(workers), CASE(attributes), CASE(reset_one), CASE(numbers), CASE(places), CASE(batches), CASE(graph_places),
      CASE(peer_codes), CASE(peer_kernels), CASE(peer_copies),
  };
  return play(argc, argv, cases);
}
