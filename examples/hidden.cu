// Memory that no launch names: the kernels are given the address of one word, and reach every node of a linked list
// through pointers that a kernel has stored. Between the kernels the program pauses, so that all of its memory may leave
// the GPU: it has to be back, where it was, although none of it is among the next launch's arguments.
//
//   hidden [nodes] [words of a node] [rounds] [pause ms]
//
//#Args: nodes=5 words=1000 rounds=3 pause_ms=1
//#Stdout: hidden: nodes=5 words=1000 rounds=3 PASS
//#Lazy: address-escapes
//#Record: 8 + nodes * (16 + 8 * words) + 16

#include "common.h"
#include <chrono>
#include <thread>
#include <vector>

typedef unsigned long long Word;

struct Node {
  Node *next;
  Word number;
  Word words[1]; // as many as the list's words say
};

constexpr unsigned kBlocks = 32, kThreads = 128;
constexpr Word kFactor = 6364136223846793005ull, kIncrement = 1442695040888963407ull;

__device__ Word first_value(Word node, size_t word) { return node * 1000003 + word; }

// The only launches that name a node: each puts one before the others.
__global__ void prepend(Node **first, Node *node, Word number) {
  node->next = *first;
  node->number = number;
  *first = node;
}

__global__ void fill(Node *const *first, size_t words) {
  for (Node *node = *first; node; node = node->next)
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += size_t(gridDim.x) * blockDim.x)
      node->words[i] = first_value(node->number, i);
}

__global__ void step(Node *const *first, size_t words) {
  for (Node *node = *first; node; node = node->next)
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += size_t(gridDim.x) * blockDim.x)
      node->words[i] = node->words[i] * kFactor + kIncrement;
}

// Counts the words that are as so many rounds make them, and the nodes.
__global__ void compare(Node *const *first, size_t words, size_t rounds, Word *right, Word *nodes) {
  for (Node *node = *first; node; node = node->next) {
    if (blockIdx.x == 0 && threadIdx.x == 0)
      ++*nodes;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += size_t(gridDim.x) * blockDim.x) {
      Word expected = first_value(node->number, i);
      for (size_t r = 0; r < rounds; r++)
        expected = expected * kFactor + kIncrement;
      if (node->words[i] == expected)
        atomicAdd(right, 1ull);
    }
  }
}

static void finish_and_pause(size_t ms) {
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

int main(int argc, char **argv) {
  size_t count = positive_argument(argc, argv, 1, 5);
  size_t words = positive_argument(argc, argv, 2, 1000);
  size_t rounds = count_argument(argc, argv, 3, 3);
  size_t pause_ms = count_argument(argc, argv, 4, 1);

  Node **first;
  CHECK(cudaMalloc(&first, sizeof(Node *)));
  CHECK(cudaMemset(first, 0, sizeof(Node *)));
  std::vector<Node *> nodes(count);
  for (size_t n = 0; n < count; n++) {
    CHECK(cudaMalloc(&nodes[n], sizeof(Node) + (words - 1) * sizeof(Word)));
    prepend<<<1, 1>>>(first, nodes[n], n);
    CHECK_LAUNCH();
  }
  fill<<<kBlocks, kThreads>>>(first, words);
  finish_and_pause(pause_ms);
  for (size_t round = 0; round < rounds; round++) {
    step<<<kBlocks, kThreads>>>(first, words);
    finish_and_pause(pause_ms);
  }
  Word *counts, seen[2];
  CHECK(cudaMalloc(&counts, sizeof seen));
  CHECK(cudaMemset(counts, 0, sizeof seen));
  compare<<<kBlocks, kThreads>>>(first, words, rounds, counts, counts + 1);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(seen, counts, sizeof seen, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(counts));
  for (Node *node : nodes)
    CHECK(cudaFree(node));
  CHECK(cudaFree(first));
  printf("hidden: nodes=%zu words=%zu rounds=%zu ", count, words, rounds);
  return report(seen[0] == Word(count) * words && seen[1] == count);
}
