// Thrust: vectors that sort, reduce and transform, and memory of ours behind its pointers.
#include "check.h"
#include <algorithm>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

struct Twice {
  __host__ __device__ int operator()(int value) const { return 2 * value; }
};

int main() {
  const int count = 20000;
  std::vector<int> numbers(count);
  unsigned state = 1;
  for (int &number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = int(state >> 12) - (1 << 19);
  }
  thrust::device_vector<int> vector(numbers.begin(), numbers.end());
  thrust::sort(vector.begin(), vector.end());
  int *own;
  OK(cudaMalloc(&own, count * sizeof(int)));
  thrust::device_ptr<int> wrapped(own);
  thrust::transform(vector.begin(), vector.end(), wrapped, Twice());
  long long sum = thrust::reduce(wrapped, wrapped + count, 0ll, thrust::plus<long long>());
  std::sort(numbers.begin(), numbers.end());
  long long expected = 0;
  auto found = to_host(own, count);
  for (int i = 0; i < count; i++) {
    EXPECT(found[i] == 2 * numbers[i]);
    expected += 2 * numbers[i];
  }
  EXPECT(sum == expected);
  OK(cudaFree(own));
  printf("%lld PASS\n", sum);
}
