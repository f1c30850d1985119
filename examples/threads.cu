// Eight host threads at once, each with arrays of its own on the GPU. Every thread is through the task on its own: they
// may run side by side on one GPU or on several.
//
//   threads [n] [repetitions]
//
//#Args: n=8000 repetitions=3
//#Stdout: threads: n=8000 repetitions=3 right=8 PASS
//#Static: 1
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n
//#Peak: 2 * 4 * n

#include "common.h"
#include <thread>
#include <vector>

constexpr unsigned kHostThreads = 8;

__global__ void rotate(const unsigned *from, unsigned *to, size_t n, size_t by) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    to[(i + by) % n] = from[i] + 1;
}

// What one host thread does.
static void work(unsigned who, size_t n, size_t repetitions, unsigned char *right) {
  std::vector<unsigned> host(n), result(n);
  for (size_t i = 0; i < n; i++)
    host[i] = unsigned(i * (who + 3));

  unsigned *from, *to;
  CHECK(cudaMalloc(&from, n * sizeof(unsigned)));
  CHECK(cudaMalloc(&to, n * sizeof(unsigned)));
  CHECK(cudaMemcpy(from, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  for (size_t r = 0; r < repetitions; r++) {
    rotate<<<unsigned((n + 127) / 128), 128>>>(from, to, n, who + 1);
    CHECK_LAUNCH();
    unsigned *written = to;
    to = from;
    from = written;
  }
  CHECK(cudaMemcpy(result.data(), from, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));

  *right = 1;
  for (size_t i = 0; i < n; i++)
    if (result[(i + repetitions * (who + 1)) % n] != host[i] + unsigned(repetitions))
      *right = 0;
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 8000);
  size_t repetitions = count_argument(argc, argv, 2, 3);
  unsigned char rights[kHostThreads] = {};
  std::vector<std::thread> threads;
  for (unsigned who = 0; who < kHostThreads; who++)
    threads.emplace_back(work, who, n, repetitions, &rights[who]);
  for (std::thread &thread : threads)
    thread.join();

  unsigned right = 0;
  for (unsigned char one : rights)
    right += one;
  printf("threads: n=%zu repetitions=%zu right=%u ", n, repetitions, right);
  return report(right == kHostThreads);
}
