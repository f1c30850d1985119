/* Launches graphs whose nodes allocate device memory: nodes WAY NODES MIB.
   The nodes of a graph are all alive at once. WAY says how they come into it, or what makes the driver take their memory:
   node (cuGraphAddMemAllocNode), any (cuGraphAddNode), child, clone, captured, update, upload, params; `turns` launches two graphs that do not
   fit side by side in turn, then allocates as much outside of graphs. */
#include "stages.h"

static size_t bytes;
static CUstream stream;

static CUDA_MEM_ALLOC_NODE_PARAMS memory(void) {
  CUDA_MEM_ALLOC_NODE_PARAMS params = {
      .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
      .bytesize = bytes};
  return params;
}

static CUgraph captured(int nodes) {
  CUgraph graph;
  CUdeviceptr address[64];
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < nodes; i++)
    CHECK(cuMemAllocAsync(&address[i], bytes, stream));
  for (int i = 0; i < nodes; i++)
    CHECK(cuMemFreeAsync(address[i], stream));
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

static CUgraph graph_of(const char *way, int nodes) {
  CUgraph graph, outer;
  CUgraphNode node[64], after;
  CUdeviceptr address[64];
  if (is(way, "captured"))
    return captured(nodes);
  CHECK(cuGraphCreate(&graph, 0));
  for (int i = 0; i < nodes; i++) {
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUDA_MEM_ALLOC_NODE_PARAMS params = memory();
    if (is(way, "any")) {
      any.alloc.poolProps = params.poolProps;
      any.alloc.bytesize = bytes;
      CHECK(cuGraphAddNode(&node[i], graph, NULL, NULL, 0, &any));
      address[i] = any.alloc.dptr;
    } else {
      CHECK(cuGraphAddMemAllocNode(&node[i], graph, NULL, 0, &params));
      address[i] = params.dptr;
    }
  }
  for (int i = 0; i < nodes; i++)
    CHECK(cuGraphAddMemFreeNode(&after, graph, node, nodes, address[i]));
  if (is(way, "clone")) {
    CHECK(cuGraphClone(&outer, graph));
    return outer;
  }
  if (is(way, "child")) {
    CHECK(cuGraphCreate(&outer, 0));
    CHECK(cuGraphAddChildGraphNode(&after, outer, NULL, 0, graph));
    return outer;
  }
  return graph;
}

static CUgraphExec instance_of(CUgraph graph) {
  CUgraphExec exec;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

static void turns(int nodes) {
  CUdeviceptr outside;
  CUgraphExec both[2] = {instance_of(graph_of("node", nodes)), instance_of(graph_of("any", nodes))};
  for (int i = 0; i < 6; i++) {
    CHECK(cuGraphLaunch(both[i % 2], stream));
    CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuMemAlloc(&outside, nodes * bytes));
  CHECK(cuMemsetD8(outside, 1, nodes * bytes));
  CHECK(cuMemFree(outside));
  CHECK(cuGraphLaunch(both[0], stream));
  CHECK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  const char *way = argv[1];
  int nodes = atoi(argv[2]);
  bytes = (size_t)atoi(argv[3]) << 20;
  CUgraphExec exec;
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (is(way, "turns")) {
    turns(nodes);
    puts("PASS");
    return 0;
  }
  CUgraph graph = graph_of(way, nodes);
  if (is(way, "params")) {
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, .hUploadStream = stream};
    CHECK(cuGraphInstantiateWithParams(&exec, graph, &params));
  } else {
    exec = instance_of(graph);
    if (is(way, "update")) {
      CUgraphExecUpdateResultInfo info;
      CHECK(cuGraphExecUpdate(exec, graph_of("node", nodes), &info));
    }
    if (is(way, "upload"))
      CHECK(cuGraphUpload(exec, stream));
    else
      for (int i = 0; i < 3; i++)
        CHECK(cuGraphLaunch(exec, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  stage("taken");
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuDeviceGraphMemTrim(0));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuDeviceGraphMemTrim(0));
  stage("trimmed");
  puts("PASS");
  return 0;
}
