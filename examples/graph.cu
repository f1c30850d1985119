// A captured graph: a stream's work is recorded once, copies and kernels together, and launched many times by one call
// each. The arguments of the kernels are those of the recording; what changes is what lies in memory.
//
//   graph [n] [launches]
//
//#Args: n=10000 launches=5
//#Stdout: graph: n=10000 launches=5 PASS
//#Lazy: anchored
//#Record: 2 * 4 * n

#include "common.h"
#include <vector>

__global__ void triple(unsigned *values, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    values[i] *= 3;
}

__global__ void add(unsigned *sums, const unsigned *values, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    sums[i] += values[i];
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 10000);
  size_t launches = count_argument(argc, argv, 2, 5);
  size_t bytes = n * sizeof(unsigned);
  unsigned blocks = unsigned((n + 127) / 128);
  unsigned *host, *values, *sums;
  CHECK(cudaMallocHost(&host, bytes));
  CHECK(cudaMalloc(&values, bytes));
  CHECK(cudaMalloc(&sums, bytes));
  CHECK(cudaMemset(sums, 0, bytes));

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(values, host, bytes, cudaMemcpyHostToDevice, stream));
  triple<<<blocks, 128, 0, stream>>>(values, n);
  CHECK_LAUNCH();
  add<<<blocks, 128, 0, stream>>>(sums, values, n);
  CHECK_LAUNCH();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));

  std::vector<unsigned> expected(n), result(n);
  for (size_t launch = 0; launch < launches; launch++) {
    for (size_t i = 0; i < n; i++) {
      host[i] = unsigned(i + launch);
      expected[i] += 3 * host[i];
    }
    CHECK(cudaGraphLaunch(executable, stream));
    // The host writes the same memory again.
    CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaMemcpy(result.data(), sums, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(values));
  CHECK(cudaFree(sums));
  CHECK(cudaFreeHost(host));
  printf("graph: n=%zu launches=%zu ", n, launches);
  return report(result == expected);
}
