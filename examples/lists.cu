// Device pointers inside device memory: an array of pointers to rows of different lengths, and a linked list whose
// nodes are separate allocations. The host chains the nodes by their device addresses, so the addresses must stay what
// cudaMalloc said they are.
//
//   lists [rows] [nodes]
//
//#Args: rows=40 nodes=60
//#Stdout: lists: rows=40 nodes=60 PASS
//#Lazy: address-escapes
//#Static: 1
//#Peak: 8 * rows + 4 * rows
//#Record: 4 * (rows * (rows + 1) / 2)

#include "common.h"
#include <vector>

typedef unsigned long long Word;

struct Node {
  Word value;
  Node *next;
};

// Block r sums row r, which has r + 1 elements.
__global__ void sum_rows(const unsigned *const *rows, unsigned *sums) {
  const unsigned *row = rows[blockIdx.x];
  for (unsigned i = threadIdx.x; i <= blockIdx.x; i += blockDim.x)
    atomicAdd(&sums[blockIdx.x], row[i]);
}

// Turns the list around, and says what stood in it in order.
__global__ void reverse(Node *first, Word *digest) {
  Node *reversed = nullptr;
  Word seen = 0;
  while (first) {
    seen = seen * 31 + first->value;
    Node *next = first->next;
    first->next = reversed;
    reversed = first;
    first = next;
  }
  *digest = seen;
}

template <class T> static T *to_device(const T *host, size_t count) {
  T *device;
  CHECK(cudaMalloc(&device, count * sizeof(T)));
  CHECK(cudaMemcpy(device, host, count * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

static bool rows_are_right(size_t rows) {
  std::vector<unsigned *> pointers;
  for (size_t r = 0; r < rows; r++) {
    std::vector<unsigned> row(r + 1);
    for (size_t i = 0; i <= r; i++)
      row[i] = unsigned(r * i + 1);
    pointers.push_back(to_device(row.data(), row.size()));
  }
  unsigned **device_rows = to_device(pointers.data(), rows);
  std::vector<unsigned> sums(rows);
  unsigned *device_sums = to_device(sums.data(), rows);
  sum_rows<<<unsigned(rows), 32>>>(device_rows, device_sums);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(sums.data(), device_sums, rows * sizeof(unsigned), cudaMemcpyDeviceToHost));

  bool right = true;
  for (size_t r = 0; r < rows; r++)
    right = right && sums[r] == unsigned(r * (r * (r + 1) / 2) + r + 1);
  for (unsigned *row : pointers)
    CHECK(cudaFree(row));
  CHECK(cudaFree(device_rows));
  CHECK(cudaFree(device_sums));
  return right;
}

static bool list_is_right(size_t count) {
  // From the last node to the first, so that each knows the next one's address.
  std::vector<Node *> nodes(count);
  Node *first = nullptr;
  for (size_t i = count; i-- > 0;) {
    Node node{Word(i * i + 7), first};
    nodes[i] = first = to_device(&node, 1);
  }
  Word digest = 0, expected = 0;
  Word *device_digest = to_device(&digest, 1);
  reverse<<<1, 1>>>(first, device_digest);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(&digest, device_digest, sizeof(digest), cudaMemcpyDeviceToHost));

  bool right = true;
  for (size_t i = 0; i < count; i++) {
    expected = expected * 31 + Word(i * i + 7);
    Node node;
    CHECK(cudaMemcpy(&node, nodes[i], sizeof(node), cudaMemcpyDeviceToHost));
    right = right && node.value == Word(i * i + 7) && node.next == (i > 0 ? nodes[i - 1] : nullptr);
  }
  for (Node *node : nodes)
    CHECK(cudaFree(node));
  CHECK(cudaFree(device_digest));
  return right && digest == expected;
}

int main(int argc, char **argv) {
  size_t rows = positive_argument(argc, argv, 1, 40);
  size_t nodes = count_argument(argc, argv, 2, 60);
  bool right = rows_are_right(rows);
  right = list_is_right(nodes) && right;
  printf("lists: rows=%zu nodes=%zu ", rows, nodes);
  return report(right);
}
