/* Captures, launches and destroys graphs that allocate: graphs COUNT MIB. Together they allocate more than there is. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                        \
  do {                                                     \
    cudaError_t code_ = (call);                            \
    if (code_ != cudaSuccess) {                            \
      printf("%s: %d, line %d\n", #call, code_, __LINE__); \
      exit(1);                                             \
    }                                                      \
  } while (0)

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  size_t bytes = (size_t)atoi(argv[2]) << 20;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int i = 0; i < atoi(argv[1]); i++) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *memory;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMallocAsync(&memory, bytes, stream));
    CHECK(cudaMemsetAsync(memory, i, bytes, stream));
    CHECK(cudaFreeAsync(memory, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
  }
  puts("PASS");
  return 0;
}
