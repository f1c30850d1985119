// Allocation in init(), launch in run(), as larger programs are built: the arrays pass through global variables. Nothing
// but what main calls uses these, so that the task is seen whole where the calls are inlined.
//
//   init_run [n] [repetitions]
//
//#Args: n=60000 repetitions=3
//#Stdout: init_run: n=60000 repetitions=3 PASS
//#Static: 1
//#Peak: 2 * 4 * n

#include "common.h"
#include <vector>

static int *device_values;
static int *device_sums;
static size_t values;

__global__ void accumulate(const int *values, int *sums, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    sums[i] += values[i];
}

static void init(size_t n) {
  values = n;
  std::vector<int> host(n);
  for (size_t i = 0; i < n; i++)
    host[i] = int(i % 4099);
  CHECK(cudaMalloc(&device_values, n * sizeof(int)));
  CHECK(cudaMalloc(&device_sums, n * sizeof(int)));
  CHECK(cudaMemcpy(device_values, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(device_sums, 0, n * sizeof(int)));
}

static void run() {
  accumulate<<<(values + 255) / 256, 256>>>(device_values, device_sums, values);
  CHECK_LAUNCH();
}

static std::vector<int> finish() {
  std::vector<int> host(values);
  CHECK(cudaMemcpy(host.data(), device_sums, values * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_sums));
  return host;
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 60000);
  size_t repetitions = count_argument(argc, argv, 2, 3);
  init(n);
  for (size_t i = 0; i < repetitions; i++)
    run();
  std::vector<int> sums = finish();

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && sums[i] == int(repetitions) * int(i % 4099);
  printf("init_run: n=%zu repetitions=%zu ", n, repetitions);
  return report(right);
}
