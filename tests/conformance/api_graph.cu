// Graph nodes of any kind, their attributes, user objects, and copies by batches.
#include "conformance.h"

#include <atomic>

using conformance::check;

static void code(conformance::Record &record, cudaError_t error) {
  put(record, int(error));
  cudaGetLastError();
}

__global__ void add_to(unsigned *to, unsigned value) { atomicAdd(to, value); }

static unsigned *words(unsigned count) {
  unsigned *device;
  check("malloc", cudaMalloc(&device, count * sizeof(unsigned)));
  check("set", cudaMemset(device, 0, count * sizeof(unsigned)));
  return device;
}
static unsigned word(const unsigned *from) {
  unsigned value;
  check("wait", cudaDeviceSynchronize());
  check("from", cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}
static cudaGraph_t new_graph() {
  cudaGraph_t graph;
  check("graph", cudaGraphCreate(&graph, 0));
  return graph;
}
static cudaGraphExec_t executable(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  check("instantiate", cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}
static cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNodeParams &params, cudaGraphNode_t after = nullptr) {
  cudaGraphNode_t node;
  check("add", cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &params));
  return node;
}
static cudaGraphNodeParams kernel_params(void **arguments) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = reinterpret_cast<void *>(add_to);
  params.kernel.gridDim = dim3(2, 1, 1);
  params.kernel.blockDim = dim3(3, 1, 1);
  params.kernel.kernelParams = arguments;
  return params;
}
static cudaGraphNodeParams memset_params(unsigned *to, unsigned value) {
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeMemset;
  params.memset.dst = to;
  params.memset.value = value;
  params.memset.elementSize = 4;
  params.memset.width = 1;
  params.memset.height = 1;
  return params;
}

HOST_CASE(nodes_by_one_structure) {
  unsigned *to = words(1), value = 5;
  void *arguments[] = {&to, &value};
  cudaGraph_t graph = new_graph();
  cudaGraphNodeParams set = memset_params(to, 100), kernel = kernel_params(arguments);
  cudaGraphNode_t first = add(graph, set), second = add(graph, kernel, first);
  cudaGraphExec_t exec = executable(graph);
  check("launch", cudaGraphLaunch(exec, 0));
  put(record, word(to));
  set = memset_params(to, 200);
  code(record, cudaGraphExecNodeSetParams(exec, first, &set));
  check("launch", cudaGraphLaunch(exec, 0));
  put(record, word(to));
  value = 7;
  kernel = kernel_params(arguments);
  code(record, cudaGraphNodeSetParams(second, &kernel));
  check("launch", cudaGraphLaunch(executable(graph), 0));
  put(record, word(to));
}
HOST_CASE(node_parameters_that_are_refused) {
  unsigned *to = words(1);
  cudaGraph_t graph = new_graph();
  cudaGraphNodeParams set = memset_params(to, 1);
  cudaGraphNode_t node = add(graph, set);
  set.memset.elementSize = 3;
  code(record, cudaGraphNodeSetParams(node, &set));
  code(record, cudaGraphNodeSetParams(node, nullptr));
  cudaGraphNodeParams none = {};
  none.type = cudaGraphNodeTypeHost;
  code(record, cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &none));
}
HOST_CASE(kernel_node_attributes) {
  unsigned *to = words(1), value = 5;
  void *arguments[] = {&to, &value};
  cudaGraph_t graph = new_graph();
  cudaGraphNodeParams kernel = kernel_params(arguments);
  cudaGraphNode_t first = add(graph, kernel), second = add(graph, kernel);
  cudaKernelNodeAttrValue attribute = {};
  attribute.cooperative = 1;
  code(record, cudaGraphKernelNodeSetAttribute(first, cudaLaunchAttributeCooperative, &attribute));
  for (cudaGraphNode_t node : {first, second}) {
    cudaKernelNodeAttrValue got = {};
    code(record, cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeCooperative, &got));
    put(record, got.cooperative);
  }
  code(record, cudaGraphKernelNodeCopyAttributes(second, first));
  cudaKernelNodeAttrValue got = {};
  code(record, cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributeCooperative, &got));
  put(record, got.cooperative);
}

static std::atomic<unsigned> destroyed;
static void destroy(void *) { destroyed++; }

HOST_CASE(user_objects) {
  cudaGraph_t graph = new_graph();
  cudaGraphNodeParams empty = {};
  empty.type = cudaGraphNodeTypeEmpty;
  add(graph, empty);
  cudaUserObject_t object;
  code(record, cudaUserObjectCreate(&object, nullptr, destroy, 1, 0));
  code(record, cudaUserObjectCreate(&object, nullptr, destroy, 1, cudaUserObjectNoDestructorSync));
  code(record, cudaUserObjectRetain(object, 1));
  code(record, cudaGraphRetainUserObject(graph, object, 1, 0));
  code(record, cudaUserObjectRelease(object, 2));
  put(record, destroyed.load());
  check("destroy", cudaGraphDestroy(graph));
  check("wait", cudaDeviceSynchronize());
  for (unsigned wait = 0; wait < 1000 && destroyed == 0; wait++)
    usleep(1000);
  put(record, destroyed.load());
}
HOST_CASE(batch_copies) {
  unsigned *device = words(64), from[64], back[64] = {};
  for (unsigned i = 0; i < 64; i++)
    from[i] = conformance::scatter(i);
  cudaStream_t stream;
  check("stream", cudaStreamCreate(&stream));
  cudaMemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t sizes[] = {128, 128}, starts[] = {0, 1};
  void *up[] = {device, device + 32}, *down[] = {back, back + 32};
  const void *up_from[] = {from, from + 32}, *down_from[] = {device, device + 32};
  code(record, cudaMemcpyBatchAsync(up, up_from, sizes, 2, attributes, starts, 2, stream));
  code(record, cudaMemcpyBatchAsync(down, down_from, sizes, 2, attributes + 1, starts, 1, stream));
  check("wait", cudaStreamSynchronize(stream));
  put(record, memcmp(from, back, sizeof from));
  size_t wrong[] = {1, 1};
  code(record, cudaMemcpyBatchAsync(up, up_from, sizes, 2, attributes, wrong, 2, stream));
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  code(record, cudaMemcpyBatchAsync(up, up_from, sizes, 2, attributes, starts, 2, stream));
  code(record, cudaMemcpyBatchAsync(up, up_from, sizes, 0, attributes, starts, 2, stream));
}
HOST_CASE(batch_copies_of_boxes) {
  unsigned char *device, from[120], back[8] = {};
  check("malloc", cudaMalloc(&device, 1000));
  for (unsigned i = 0; i < 120; i++)
    from[i] = i;
  cudaStream_t stream;
  check("stream", cudaStreamCreate(&stream));
  cudaMemcpy3DBatchOp op = {};
  op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
  op.src.op.ptr.ptr = from;
  op.dst.op.ptr.ptr = device;
  op.dst.op.ptr.rowLength = 20;
  op.dst.op.ptr.layerHeight = 10;
  op.extent = make_cudaExtent(12, 10, 1);
  op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  code(record, cudaMemcpy3DBatchAsync(1, &op, 0, stream));
  op.src.op.ptr.ptr = device + 3;
  op.src.op.ptr.rowLength = 20;
  op.dst.op.ptr.ptr = back;
  op.dst.op.ptr.rowLength = op.dst.op.ptr.layerHeight = 0;
  op.extent = make_cudaExtent(4, 2, 1);
  code(record, cudaMemcpy3DBatchAsync(1, &op, 0, stream));
  check("wait", cudaStreamSynchronize(stream));
  for (unsigned char byte : back)
    put(record, byte);
}
HOST_CASE(graph_memory_attributes) {
  unsigned long long high = 1;
  code(record, cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &high));
  put(record, high);
  high = 0;
  code(record, cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &high));
  code(record, cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &high));
  high = 4;
  code(record, cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &high));
  code(record, cudaDeviceGraphMemTrim(0));
}
