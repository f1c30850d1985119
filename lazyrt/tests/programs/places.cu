// Devices that are named in structures, and in answers: by the program's numbers, whichever GPUs it was granted. One case
// per argument; every case also holds natively.

#include "devices.h"

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

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(places), CASE(batches), CASE(graph_places),
  };
  return play(argc, argv, cases);
}
