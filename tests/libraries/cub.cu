// CUB: a radix sort of pairs and a scan, whose workspace is an object like any other.
#include "check.h"
#include <algorithm>
#include <cub/cub.cuh>
#include <numeric>

int main() {
  const int count = 20000;
  std::vector<unsigned> keys(count);
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  unsigned state = 7;
  for (unsigned &key : keys) {
    state = state * 1664525u + 1013904223u;
    key = state >> 20;
  }
  unsigned *keys_in = to_device(keys), *keys_out, *scanned;
  int *values_in = to_device(values), *values_out;
  OK(cudaMalloc(&keys_out, count * sizeof(unsigned)));
  OK(cudaMalloc(&values_out, count * sizeof(int)));
  OK(cudaMalloc(&scanned, count * sizeof(unsigned)));
  void *work = nullptr;
  size_t bytes = 0;
  OK(cub::DeviceRadixSort::SortPairs(work, bytes, keys_in, keys_out, values_in, values_out, count));
  OK(cudaMalloc(&work, bytes));
  OK(cub::DeviceRadixSort::SortPairs(work, bytes, keys_in, keys_out, values_in, values_out, count));
  OK(cudaFree(work));
  work = nullptr;
  OK(cub::DeviceScan::ExclusiveSum(work, bytes, keys_out, scanned, count));
  OK(cudaMalloc(&work, bytes));
  OK(cub::DeviceScan::ExclusiveSum(work, bytes, keys_out, scanned, count));
  auto order = to_host(values_out, count);
  auto sums = to_host(scanned, count);
  std::stable_sort(values.begin(), values.end(), [&](int a, int b) { return keys[a] < keys[b]; });
  unsigned sum = 0;
  for (int i = 0; i < count; i++) {
    EXPECT(order[i] == values[i]);
    EXPECT(sums[i] == sum);
    sum += keys[values[i]];
  }
  for (void *each : {(void *)keys_in, (void *)keys_out, (void *)values_in, (void *)values_out, (void *)scanned, work})
    OK(cudaFree(each));
  printf("%u PASS\n", sum);
}
