// Overlap by streams: pieces of an array go through copy in, kernel and copy out, each piece on a stream of its own, so
// that one piece's copies run beside another's kernel. Copies are only asynchronous from and to pinned memory.
//
//   streams [n] [pieces] [streams]
//
//#Args: n=60000 pieces=7 streams=3
//#Stdout: streams: n=60000 pieces=7 streams=3 PASS
//#Lazy: allocated-elsewhere
//#Lazy: address-escapes
//#Record: streams * 4 * ((n + pieces - 1) / pieces)

#include "common.h"
#include <algorithm>
#include <vector>

__host__ __device__ unsigned mixed(unsigned x) {
  for (int round = 0; round < 4; round++) {
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
  }
  return x;
}

__global__ void mix(unsigned *values, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    values[i] = mixed(values[i]);
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 60000);
  size_t pieces = positive_argument(argc, argv, 2, 7);
  size_t lanes = positive_argument(argc, argv, 3, 3);
  size_t most = (n + pieces - 1) / pieces;

  unsigned *host;
  CHECK(cudaMallocHost(&host, n * sizeof(unsigned)));
  for (size_t i = 0; i < n; i++)
    host[i] = unsigned(i);

  std::vector<cudaStream_t> streams(lanes);
  std::vector<unsigned *> device(lanes);
  for (size_t lane = 0; lane < lanes; lane++) {
    CHECK(cudaStreamCreate(&streams[lane]));
    CHECK(cudaMalloc(&device[lane], most * sizeof(unsigned)));
  }

  // A stream's buffer serves one piece after the other: the stream's order keeps them apart.
  for (size_t piece = 0; piece * most < n; piece++) {
    size_t lane = piece % lanes;
    size_t first = piece * most;
    size_t count = std::min(most, n - first);
    size_t bytes = count * sizeof(unsigned);
    CHECK(cudaMemcpyAsync(device[lane], host + first, bytes, cudaMemcpyHostToDevice, streams[lane]));
    mix<<<(count + 127) / 128, 128, 0, streams[lane]>>>(device[lane], count);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyAsync(host + first, device[lane], bytes, cudaMemcpyDeviceToHost, streams[lane]));
  }
  for (size_t lane = 0; lane < lanes; lane++) {
    CHECK(cudaStreamSynchronize(streams[lane]));
    CHECK(cudaStreamDestroy(streams[lane]));
    CHECK(cudaFree(device[lane]));
  }

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && host[i] == mixed(unsigned(i));
  CHECK(cudaFreeHost(host));
  printf("streams: n=%zu pieces=%zu streams=%zu ", n, pieces, lanes);
  return report(right);
}
