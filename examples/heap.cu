// Memory allocated on the device: every thread builds a list of its own with malloc in a kernel, a later kernel sums and
// frees it. The device's heap is a fixed part of its memory, whose size the host sets before the first launch.
//
//   heap [threads] [nodes a thread] [heap]
//
//#Args: threads=512 nodes=10 heap=4MiB
//#Stdout: heap: threads=512 nodes=10 lost=0 PASS
//#Static: 1
//#Peak: 8 * threads + 8 * threads + 4

#include "common.h"
#include <vector>

typedef unsigned long long Word;

struct Node {
  Word value;
  Node *next;
};

__global__ void build(Node **lists, unsigned count, unsigned nodes, unsigned *lost) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= count)
    return;
  Node *first = nullptr;
  for (unsigned i = 0; i < nodes; i++) {
    // Null where the heap is full.
    Node *node = static_cast<Node *>(malloc(sizeof(Node)));
    if (!node) {
      atomicAdd(lost, 1u);
      break;
    }
    node->value = Word(thread) * i + 1;
    node->next = first;
    first = node;
  }
  lists[thread] = first;
}

__global__ void sum_and_free(Node **lists, Word *sums, unsigned count) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= count)
    return;
  Word sum = 0;
  for (Node *node = lists[thread]; node;) {
    sum += node->value;
    Node *next = node->next;
    free(node);
    node = next;
  }
  sums[thread] = sum;
}

int main(int argc, char **argv) {
  unsigned threads = unsigned(positive_argument(argc, argv, 1, 512));
  unsigned nodes = unsigned(count_argument(argc, argv, 2, 10));
  size_t heap = argc > 3 ? parse_size(argv[3]) : size_t(4) << 20;
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));

  Node **lists;
  Word *sums;
  unsigned *device_lost;
  CHECK(cudaMalloc(&lists, threads * sizeof(Node *)));
  CHECK(cudaMalloc(&sums, threads * sizeof(Word)));
  CHECK(cudaMalloc(&device_lost, sizeof(unsigned)));
  CHECK(cudaMemset(device_lost, 0, sizeof(unsigned)));
  build<<<(threads + 63) / 64, 64>>>(lists, threads, nodes, device_lost);
  CHECK_LAUNCH();
  sum_and_free<<<(threads + 63) / 64, 64>>>(lists, sums, threads);
  CHECK_LAUNCH();

  std::vector<Word> result(threads);
  unsigned lost = 0;
  CHECK(cudaMemcpy(result.data(), sums, threads * sizeof(Word), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&lost, device_lost, sizeof(lost), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(lists));
  CHECK(cudaFree(sums));
  CHECK(cudaFree(device_lost));

  bool right = lost == 0;
  for (unsigned t = 0; t < threads; t++)
    right = right && result[t] == (nodes > 0 ? Word(t) * (Word(nodes) * (nodes - 1) / 2) + nodes : 0);
  printf("heap: threads=%u nodes=%u lost=%u ", threads, nodes, lost);
  return report(right);
}
