// Thousands of small allocations, freed and made anew in between, all written by one launch that finds them through a
// table. What is freed leaves holes; what comes later is twice as large and does not fit them.
//
//   many [allocations] [words in each]
//
//#Args: count=3000 words=12
//#Stdout: many: count=3000 words=12 PASS
//#Lazy: address-escapes
//#Record: 4 * words * count + 4 * words * (count / 2)
//#Static: 1
//#Peak: 8 * count + 4 * count

#include "common.h"
#include <vector>

// Thread i writes the words of allocation i.
__global__ void write_all(unsigned *const *table, const unsigned *lengths, size_t count) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  for (unsigned word = 0; word < lengths[i]; word++)
    table[i][word] = unsigned(i) * 1000u + word;
}

int main(int argc, char **argv) {
  size_t count = positive_argument(argc, argv, 1, 3000);
  size_t words = positive_argument(argc, argv, 2, 12);
  std::vector<unsigned *> table(count);
  std::vector<unsigned> lengths(count, unsigned(words));
  for (unsigned *&memory : table)
    CHECK(cudaMalloc(&memory, words * sizeof(unsigned)));
  for (size_t i = 1; i < count; i += 2)
    CHECK(cudaFree(table[i]));
  for (size_t i = 1; i < count; i += 2) {
    lengths[i] = unsigned(2 * words);
    CHECK(cudaMalloc(&table[i], lengths[i] * sizeof(unsigned)));
  }

  unsigned **device_table;
  unsigned *device_lengths;
  CHECK(cudaMalloc(&device_table, count * sizeof(unsigned *)));
  CHECK(cudaMalloc(&device_lengths, count * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_table, table.data(), count * sizeof(unsigned *), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_lengths, lengths.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice));
  write_all<<<unsigned((count + 63) / 64), 64>>>(device_table, device_lengths, count);
  CHECK_LAUNCH();

  bool right = true;
  std::vector<unsigned> result(2 * words);
  for (size_t i = 0; i < count; i++) {
    CHECK(cudaMemcpy(result.data(), table[i], lengths[i] * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (unsigned word = 0; word < lengths[i]; word++)
      right = right && result[word] == unsigned(i) * 1000u + word;
    CHECK(cudaFree(table[i]));
  }
  CHECK(cudaFree(device_table));
  CHECK(cudaFree(device_lengths));
  printf("many: count=%zu words=%zu ", count, words);
  return report(right);
}
