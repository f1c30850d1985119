// Flags, and places named by number: which the runtime takes, and what it says of others.
#include "conformance.h"

#include <sys/mman.h>

using conformance::check;

// A recorded code; the error is taken back, so that it is not found by the next.
static void code(conformance::Record &record, cudaError_t error) {
  put(record, int(error));
  cudaGetLastError();
}

static const unsigned flags[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 32, 64, 128, 0x1000, 0x80000000};
static const cudaMemLocation here = {cudaMemLocationTypeDevice, 0}, nowhere = {cudaMemLocationTypeDevice, 99};

HOST_CASE(host_alloc_flags) {
  for (unsigned flag : flags) {
    void *host = nullptr;
    cudaError_t got = cudaHostAlloc(&host, 4096, flag);
    code(record, got);
    if (got == cudaSuccess) {
      unsigned said = 0;
      code(record, cudaHostGetFlags(&said, host));
      put(record, said);
      code(record, cudaFreeHost(host));
    }
  }
  void *host = nullptr;
  code(record, cudaHostAlloc(&host, 0, 64));
  code(record, cudaHostAlloc(nullptr, 4096, 0));
}
HOST_CASE(host_register_flags) {
  const int pages = MAP_PRIVATE | MAP_ANONYMOUS;
  for (unsigned flag : flags) {
    void *own = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, pages, -1, 0);
    memset(own, 1, 4096);
    cudaError_t got = cudaHostRegister(own, 4096, flag);
    code(record, got);
    if (got == cudaSuccess) {
      unsigned said = 0;
      code(record, cudaHostGetFlags(&said, own));
      put(record, said);
      code(record, cudaHostUnregister(own));
    }
    munmap(own, 4096);
  }
  code(record, cudaHostRegister(nullptr, 0, 64));
}
HOST_CASE(host_pointer_flags) {
  void *host, *device;
  check("host", cudaMallocHost(&host, 4096));
  for (unsigned flag : {0u, 1u, 2u})
    code(record, cudaHostGetDevicePointer(&device, host, flag));
}
HOST_CASE(managed_flags) {
  for (unsigned flag : flags) {
    void *both = nullptr;
    code(record, cudaMallocManaged(&both, 4096, flag));
  }
  void *both = nullptr;
  code(record, cudaMallocManaged(&both, 0, cudaMemAttachGlobal));
}
HOST_CASE(stream_flags) {
  for (unsigned flag : flags) {
    cudaStream_t stream;
    code(record, cudaStreamCreateWithFlags(&stream, flag));
    code(record, cudaStreamCreateWithPriority(&stream, flag, 0));
  }
}
HOST_CASE(event_flags) {
  for (unsigned flag : flags) {
    cudaEvent_t event;
    code(record, cudaEventCreateWithFlags(&event, flag));
  }
}
HOST_CASE(wait_and_record_flags) {
  cudaStream_t stream;
  cudaEvent_t event;
  check("stream", cudaStreamCreate(&stream));
  check("event", cudaEventCreate(&event));
  for (unsigned flag : flags) {
    code(record, cudaEventRecordWithFlags(event, stream, flag));
    code(record, cudaStreamWaitEvent(stream, event, flag));
  }
}
HOST_CASE(device_flags) {
  for (unsigned flag : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 16u, 20u, 128u, 256u, 0x2000u}) {
    unsigned said = 0;
    code(record, cudaSetDeviceFlags(flag));
    code(record, cudaGetDeviceFlags(&said));
    put(record, said);
  }
}
HOST_CASE(pools_of_places) {
  cudaMemPool_t own, pool;
  cudaMemLocation place = here, wrong = nowhere;
  check("own", cudaDeviceGetDefaultMemPool(&own, 0));
  code(record, cudaMemGetDefaultMemPool(&pool, &place, cudaMemAllocationTypePinned));
  put(record, int(pool == own));
  code(record, cudaMemGetMemPool(&pool, &place, cudaMemAllocationTypePinned));
  put(record, int(pool == own));
  code(record, cudaMemSetMemPool(&place, cudaMemAllocationTypePinned, pool));
  code(record, cudaMemGetDefaultMemPool(&pool, &wrong, cudaMemAllocationTypePinned));
  code(record, cudaMemGetMemPool(&pool, &wrong, cudaMemAllocationTypePinned));
  code(record, cudaMemSetMemPool(&wrong, cudaMemAllocationTypePinned, pool));
  code(record, cudaMemGetMemPool(&pool, nullptr, cudaMemAllocationTypePinned));
  code(record, cudaMemSetMemPool(nullptr, cudaMemAllocationTypePinned, pool));
  code(record, cudaDeviceGetMemPool(&pool, 99));
}
HOST_CASE(copy_batches) {
  void *device, *host;
  cudaStream_t stream;
  check("device", cudaMalloc(&device, 4096));
  check("host", cudaMallocHost(&host, 4096));
  check("stream", cudaStreamCreate(&stream));
  memset(host, 7, 4096);
  void *to[] = {device};
  const void *from[] = {host};
  size_t bytes = 100, first = 0;
  cudaMemcpyAttributes asked = {};
  asked.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  code(record, cudaMemcpyBatchAsync(to, from, &bytes, 1, &asked, &first, 1, stream));
  code(record, cudaMemcpyBatchAsync(to, from, &bytes, 1, &asked, &first, 1, nullptr));
  code(record, cudaMemcpyBatchAsync(to, from, &bytes, 0, &asked, &first, 1, stream));
  code(record, cudaMemcpyBatchAsync(to, from, &bytes, 1, nullptr, nullptr, 0, stream));
  asked.srcLocHint = here;
  asked.dstLocHint = here;
  code(record, cudaMemcpyBatchAsync(to, from, &bytes, 1, &asked, &first, 1, stream));
  asked.srcLocHint = nowhere;
  code(record, cudaMemcpyBatchAsync(to, from, &bytes, 1, &asked, &first, 1, stream));
  cudaMemcpy3DBatchOp box = {};
  box.src.type = box.dst.type = cudaMemcpyOperandTypePointer;
  box.src.op.ptr.ptr = host;
  box.dst.op.ptr.ptr = static_cast<char *>(device) + 1000;
  box.extent = {16, 4, 2};
  box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  code(record, cudaMemcpy3DBatchAsync(1, &box, 0, stream));
  code(record, cudaMemcpy3DBatchAsync(1, &box, 0, nullptr));
  box.src.op.ptr.locHint = nowhere;
  code(record, cudaMemcpy3DBatchAsync(1, &box, 0, stream));
  box.src.op.ptr.rowLength = 8;
  code(record, cudaMemcpy3DBatchAsync(1, &box, 0, stream));
  code(record, cudaStreamSynchronize(stream));
  unsigned char back[4096];
  check("back", cudaMemset(static_cast<char *>(device) + 100, 0, 900));
  check("back", cudaMemcpy(back, device, 1128, cudaMemcpyDeviceToHost));
  for (int at : {0, 99, 100, 999, 1000, 1127})
    put(record, int(back[at]));
}
HOST_CASE(prefetch_batches) {
  void *both;
  cudaStream_t stream;
  size_t bytes = 4 << 20, first = 0;
  check("managed", cudaMallocManaged(&both, bytes));
  check("stream", cudaStreamCreate(&stream));
  void *all[] = {both};
  cudaMemLocation place = here, wrong = nowhere;
  code(record, cudaMemPrefetchBatchAsync(all, &bytes, 1, &place, &first, 1, 0, stream));
  code(record, cudaMemPrefetchBatchAsync(all, &bytes, 1, &wrong, &first, 1, 0, stream));
  code(record, cudaMemPrefetchBatchAsync(all, &bytes, 1, &place, &first, 1, 0, nullptr));
  code(record, cudaMemPrefetchBatchAsync(all, &bytes, 1, &place, &first, 1, 1, stream));
  code(record, cudaMemDiscardAndPrefetchBatchAsync(all, &bytes, 1, &place, &first, 1, 0, stream));
  code(record, cudaMemDiscardBatchAsync(all, &bytes, 1, 0, stream));
  code(record, cudaStreamSynchronize(stream));
}
HOST_CASE(managed_places) {
  void *both;
  size_t bytes = 4 << 20;
  check("managed", cudaMallocManaged(&both, bytes));
  check("preferred", cudaMemAdvise(both, bytes, cudaMemAdviseSetPreferredLocation, here));
  check("accessed", cudaMemAdvise(both, bytes, cudaMemAdviseSetAccessedBy, here));
  check("prefetched", cudaMemPrefetchAsync(both, bytes, here, 0, nullptr));
  check("wait", cudaDeviceSynchronize());
  for (int attribute = 1; attribute <= 8; attribute++) {
    int said[4] = {7, 7, 7, 7};
    size_t room = attribute == cudaMemRangeAttributeAccessedBy ? sizeof said : sizeof(int);
    code(record, cudaMemRangeGetAttribute(said, room, cudaMemRangeAttribute(attribute), both, bytes));
    for (int one : said)
      put(record, one);
  }
}
// Memory of graphs is taken when one is launched or uploaded, and kept.
static void reserved(conformance::Record &record) {
  unsigned long long bytes = 0;
  check("attribute", cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &bytes));
  put(record, int(bytes >= 3 << 20));
}
static void graph_memory(conformance::Record &record, bool upload) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t first, last;
  cudaMemAllocNodeParams asked = {};
  asked.poolProps.allocType = cudaMemAllocationTypePinned;
  asked.poolProps.location = here;
  asked.bytesize = 3 << 20;
  check("stream", cudaStreamCreate(&stream));
  check("graph", cudaGraphCreate(&graph, 0));
  code(record, cudaGraphAddMemAllocNode(&first, graph, nullptr, 0, &asked));
  code(record, cudaGraphAddMemFreeNode(&last, graph, &first, 1, asked.dptr));
  reserved(record);
  code(record, cudaGraphInstantiate(&executable, graph, 0));
  reserved(record);
  if (upload) {
    code(record, cudaGraphUpload(executable, stream));
    check("wait", cudaStreamSynchronize(stream));
    reserved(record);
  }
  code(record, cudaGraphLaunch(executable, stream));
  check("wait", cudaStreamSynchronize(stream));
  reserved(record);
  code(record, cudaDeviceGraphMemTrim(0));
  reserved(record);
  code(record, cudaGraphLaunch(executable, stream));
  check("wait", cudaStreamSynchronize(stream));
  reserved(record);
  code(record, cudaGraphExecDestroy(executable));
  code(record, cudaGraphDestroy(graph));
  code(record, cudaDeviceGraphMemTrim(0));
  reserved(record);
}
HOST_CASE(graph_memory_at_launch) { graph_memory(record, false); }
HOST_CASE(graph_memory_at_upload) { graph_memory(record, true); }
HOST_CASE(graph_memory_of_devices) {
  unsigned long long bytes = 0;
  code(record, cudaDeviceGetGraphMemAttribute(99, cudaGraphMemAttrReservedMemCurrent, &bytes));
  code(record, cudaDeviceGraphMemTrim(99));
}
