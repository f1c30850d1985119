// Streams, events, callbacks and graphs: what happens before what.
#include "conformance.h"

#include <atomic>

using conformance::check;

static void code(conformance::Record &record, cudaError_t error) {
  put(record, int(error));
  cudaGetLastError();
}

// Takes a while, and appends its number to a list.
__global__ void append(unsigned *list, unsigned number) {
  for (volatile unsigned spin = 0; spin < 2000; spin = spin + 1)
    ;
  list[1 + atomicAdd(list, 1)] = number;
}
static unsigned *new_list() {
  unsigned *list;
  check("malloc", cudaMalloc(&list, 400));
  check("set", cudaMemset(list, 0, 400));
  return list;
}
static void put_list(conformance::Record &record, const unsigned *list, unsigned n) {
  check("wait", cudaDeviceSynchronize());
  unsigned host[100];
  check("from", cudaMemcpy(host, list, sizeof host, cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i <= n; i++)
    put(record, host[i]);
}
static cudaStream_t new_stream(unsigned flags = cudaStreamDefault) {
  cudaStream_t stream;
  check("stream", cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

HOST_CASE(stream_is_in_order) {
  unsigned *list = new_list();
  cudaStream_t stream = new_stream(cudaStreamNonBlocking);
  for (unsigned i = 0; i < 20; i++)
    append<<<1, 1, 0, stream>>>(list, i);
  put_list(record, list, 20);
}
HOST_CASE(legacy_stream_waits_for_others) {
  unsigned *list = new_list();
  cudaStream_t one = new_stream(), two = new_stream();
  append<<<1, 1, 0, one>>>(list, 1);
  append<<<1, 1>>>(list, 2);
  append<<<1, 1, 0, two>>>(list, 3);
  append<<<1, 1>>>(list, 4);
  put_list(record, list, 4);
}
// Sets what it is given, after a while.
static void CUDART_CB set_late(void *flag) {
  usleep(50000);
  *static_cast<std::atomic<int> *>(flag) = 1;
}
HOST_CASE(host_waits_for_default_streams) {
  cudaStream_t blocking = new_stream(), streams[] = {blocking, cudaStreamPerThread, new_stream(cudaStreamNonBlocking)};
  cudaEvent_t event;
  check("event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::atomic<int> flag;
  auto after = [&](cudaStream_t stream) {
    flag = 0;
    check("call", cudaLaunchHostFunc(stream, set_late, &flag));
  };
  auto done = [&] {
    put(record, int(flag));
    check("wait", cudaDeviceSynchronize());
  };
  for (cudaStream_t stream : streams) {
    after(stream);
    check("wait", cudaStreamSynchronize(cudaStreamLegacy));
    done();
    after(stream);
    check("record", cudaEventRecord(event, cudaStreamLegacy));
    check("wait", cudaEventSynchronize(event));
    done();
    after(cudaStreamLegacy);
    check("wait", cudaStreamSynchronize(stream));
    done();
    after(cudaStreamLegacy);
    check("record", cudaEventRecord(event, stream));
    check("wait", cudaEventSynchronize(event));
    done();
  }
}
HOST_CASE(stream_waits_for_event) {
  unsigned *list = new_list();
  cudaStream_t one = new_stream(cudaStreamNonBlocking), two = new_stream(cudaStreamNonBlocking);
  cudaEvent_t event;
  check("event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (unsigned i = 0; i < 10; i++) {
    append<<<1, 1, 0, one>>>(list, 2 * i);
    check("record", cudaEventRecord(event, one));
    check("wait", cudaStreamWaitEvent(two, event, 0));
    append<<<1, 1, 0, two>>>(list, 2 * i + 1);
    check("record", cudaEventRecord(event, two));
    check("wait", cudaStreamWaitEvent(one, event, 0));
  }
  put_list(record, list, 20);
}
HOST_CASE(event_codes) {
  cudaEvent_t event, other;
  check("event", cudaEventCreate(&event));
  check("event", cudaEventCreate(&other));
  code(record, cudaEventQuery(event));
  code(record, cudaEventSynchronize(event));
  float passed;
  code(record, cudaEventElapsedTime(&passed, event, other));
  check("record", cudaEventRecord(event));
  check("record", cudaEventRecord(other));
  code(record, cudaEventSynchronize(other));
  code(record, cudaEventQuery(event));
  code(record, cudaEventElapsedTime(&passed, event, other));
  put(record, int(passed >= 0));
  code(record, cudaEventCreateWithFlags(&event, 0x1000));
  code(record, cudaEventDestroy(other));
}
HOST_CASE(stream_codes) {
  cudaStream_t stream = new_stream();
  code(record, cudaStreamQuery(stream));
  code(record, cudaStreamSynchronize(stream));
  unsigned flags = 77;
  code(record, cudaStreamGetFlags(stream, &flags));
  put(record, flags);
  int least, greatest, priority;
  code(record, cudaDeviceGetStreamPriorityRange(&least, &greatest));
  put(record, int(greatest <= least));
  check("priority", cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  code(record, cudaStreamGetPriority(stream, &priority));
  put(record, int(priority == greatest));
  code(record, cudaStreamCreateWithFlags(&stream, 0x77));
  code(record, cudaStreamDestroy(nullptr));
}
HOST_CASE(busy_stream_is_not_ready) {
  unsigned *list = new_list();
  cudaStream_t stream = new_stream();
  // Loading a kernel at its first launch waits for the device.
  append<<<1, 1, 0, stream>>>(list, 0);
  check("wait", cudaStreamSynchronize(stream));
  std::atomic<int> may_go(0);
  check("host", cudaLaunchHostFunc(
                    stream,
                    [](void *flag) {
                      while (static_cast<std::atomic<int> *>(flag)->load() == 0)
                        usleep(100);
                    },
                    &may_go));
  append<<<1, 1, 0, stream>>>(list, 1);
  code(record, cudaStreamQuery(stream));
  may_go = 1;
  code(record, cudaStreamSynchronize(stream));
  code(record, cudaStreamQuery(stream));
  put_list(record, list, 2);
}
struct Seen {
  std::vector<int> *order;
  int number;
};
HOST_CASE(host_functions_are_in_order) {
  unsigned *list = new_list();
  std::vector<int> order;
  std::vector<Seen> seen;
  for (int i = 0; i < 8; i++)
    seen.push_back({&order, i});
  cudaStream_t stream = new_stream();
  for (Seen &one : seen) {
    append<<<1, 1, 0, stream>>>(list, unsigned(one.number));
    check("host", cudaLaunchHostFunc(
                      stream,
                      [](void *data) {
                        Seen *own = static_cast<Seen *>(data);
                        own->order->push_back(own->number);
                      },
                      &one));
  }
  check("callback", cudaStreamAddCallback(
                        stream,
                        [](cudaStream_t, cudaError_t status, void *data) {
                          static_cast<std::vector<int> *>(data)->push_back(100 + int(status));
                        },
                        &order, 0));
  check("wait", cudaStreamSynchronize(stream));
  for (int number : order)
    put(record, number);
}

static void put_nodes(conformance::Record &record, cudaGraph_t graph) {
  size_t nodes = 0, edges = 0;
  check("nodes", cudaGraphGetNodes(graph, nullptr, &nodes));
#if CUDART_VERSION >= 13000
  check("edges", cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
#else
  check("edges", cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
#endif
  put(record, nodes), put(record, edges);
}
HOST_CASE(captured_graph) {
  unsigned *list = new_list();
  cudaStream_t one = new_stream(), two = new_stream();
  cudaEvent_t fork, join;
  check("event", cudaEventCreate(&fork));
  check("event", cudaEventCreate(&join));
  check("begin", cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  append<<<1, 1, 0, one>>>(list, 1);
  check("fork", cudaEventRecord(fork, one));
  check("fork", cudaStreamWaitEvent(two, fork, 0));
  append<<<1, 1, 0, two>>>(list, 2);
  check("set", cudaMemsetAsync(list + 50, 1, 4, one));
  check("join", cudaEventRecord(join, two));
  check("join", cudaStreamWaitEvent(one, join, 0));
  append<<<1, 1, 0, one>>>(list, 3);
  cudaStreamCaptureStatus status;
  check("status", cudaStreamIsCapturing(two, &status));
  put(record, int(status));
  cudaGraph_t graph;
  check("end", cudaStreamEndCapture(one, &graph));
  check("status", cudaStreamIsCapturing(one, &status));
  put(record, int(status));
  put_nodes(record, graph);
  put_list(record, list, 1);
  cudaGraphExec_t exec;
  check("instantiate", cudaGraphInstantiate(&exec, graph, 0));
  check("launch", cudaGraphLaunch(exec, one));
  check("launch", cudaGraphLaunch(exec, one));
  put_list(record, list, 6);
  code(record, cudaGraphExecDestroy(exec));
  code(record, cudaGraphDestroy(graph));
}
HOST_CASE(capture_codes) {
  cudaStream_t stream = new_stream();
  cudaGraph_t graph;
  code(record, cudaStreamEndCapture(stream, &graph));
  code(record, cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  check("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  code(record, cudaStreamSynchronize(stream));
  code(record, cudaStreamEndCapture(stream, &graph));
  check("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  code(record, cudaStreamEndCapture(stream, &graph));
  put_nodes(record, graph);
}
HOST_CASE(copies_that_name_devices_are_not_captured) {
  cudaStream_t stream = new_stream(cudaStreamNonBlocking);
  unsigned char *bytes;
  check("malloc", cudaMalloc(&bytes, 400));
  cudaGraph_t graph;
  check("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  code(record, cudaMemcpyPeerAsync(bytes, 0, bytes + 200, 0, 100, stream));
  code(record, cudaStreamEndCapture(stream, &graph));
  cudaMemcpy3DPeerParms box = {};
  box.srcPtr = make_cudaPitchedPtr(bytes, 100, 100, 1);
  box.dstPtr = make_cudaPitchedPtr(bytes + 200, 100, 100, 1);
  box.extent = make_cudaExtent(100, 1, 1);
  check("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  code(record, cudaMemcpy3DPeerAsync(&box, stream));
  code(record, cudaStreamEndCapture(stream, &graph));
  check("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  code(record, cudaMemcpyPeerAsync(bytes, 0, bytes + 200, 0, 0, stream));
  code(record, cudaStreamEndCapture(stream, &graph));
}
HOST_CASE(graph_built_by_hand) {
  unsigned *list = new_list(), number = 5;
  cudaGraph_t graph;
  check("create", cudaGraphCreate(&graph, 0));
  void *arguments[] = {&list, &number};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void *>(append);
  kernel.gridDim = dim3(1), kernel.blockDim = dim3(1);
  kernel.kernelParams = arguments;
  cudaGraphNode_t first, second, empty, set, copy;
  check("kernel", cudaGraphAddKernelNode(&first, graph, nullptr, 0, &kernel));
  number = 6;
  check("kernel", cudaGraphAddKernelNode(&second, graph, &first, 1, &kernel));
  check("empty", cudaGraphAddEmptyNode(&empty, graph, &second, 1));
  cudaMemsetParams bytes = {};
  bytes.dst = list + 10, bytes.value = 0x0b, bytes.elementSize = 1, bytes.width = 8, bytes.height = 1;
  check("set", cudaGraphAddMemsetNode(&set, graph, &empty, 1, &bytes));
  check("copy", cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, list + 3, list + 10, 8, cudaMemcpyDeviceToDevice));
  put_nodes(record, graph);
  cudaGraphNodeType type;
  for (cudaGraphNode_t node : {first, empty, set, copy}) {
    check("type", cudaGraphNodeGetType(node, &type));
    put(record, int(type));
  }
  cudaGraphExec_t exec;
  check("instantiate", cudaGraphInstantiate(&exec, graph, 0));
  check("launch", cudaGraphLaunch(exec, nullptr));
  put_list(record, list, 4);
  // Other arguments for a node that is instantiated already.
  number = 70;
  check("update", cudaGraphExecKernelNodeSetParams(exec, second, &kernel));
  check("set", cudaMemset(list, 0, 400));
  check("launch", cudaGraphLaunch(exec, nullptr));
  put_list(record, list, 4);
}
HOST_CASE(graph_in_a_graph) {
  unsigned *list = new_list(), number = 1;
  void *arguments[] = {&list, &number};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void *>(append);
  kernel.gridDim = dim3(1), kernel.blockDim = dim3(1);
  kernel.kernelParams = arguments;
  cudaGraph_t inner, outer, clone;
  cudaGraphNode_t node, child, last;
  check("create", cudaGraphCreate(&inner, 0));
  check("create", cudaGraphCreate(&outer, 0));
  check("kernel", cudaGraphAddKernelNode(&node, inner, nullptr, 0, &kernel));
  check("child", cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
  number = 2;
  check("kernel", cudaGraphAddKernelNode(&last, outer, &child, 1, &kernel));
  check("clone", cudaGraphClone(&clone, outer));
  check("destroy", cudaGraphDestroy(outer));
  put_nodes(record, clone);
  cudaGraphExec_t exec;
  check("instantiate", cudaGraphInstantiate(&exec, clone, 0));
  check("launch", cudaGraphLaunch(exec, nullptr));
  put_list(record, list, 2);
}
HOST_CASE(graph_with_a_host_node) {
  int count = 0;
  cudaHostNodeParams host = {};
  host.fn = [](void *data) { ++*static_cast<int *>(data); };
  host.userData = &count;
  cudaGraph_t graph;
  cudaGraphNode_t node;
  check("create", cudaGraphCreate(&graph, 0));
  check("host", cudaGraphAddHostNode(&node, graph, nullptr, 0, &host));
  cudaGraphExec_t exec;
  check("instantiate", cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++)
    check("launch", cudaGraphLaunch(exec, nullptr));
  check("wait", cudaDeviceSynchronize());
  put(record, count);
}
