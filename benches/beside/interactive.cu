// A program that people wait for: from time to time a burst of small kernels, and then its result.
//
//   interactive [--seconds N] [--period MS] [--kernels N] [--blocks N] [--chain N] [--stream-priority 1] [--random 1]
//
// Each burst is `kernels` kernels (50) of `blocks` blocks (32) of 128 threads, some 20 us each, one behind the other. A
// burst comes every `period` ms (20), or with --random after exponential times of that mean. It prints "ready", waits for a line,
// and prints a line of JSON: bursts, and the milliseconds from a burst's first launch (from when it was due, with
// --random) until the program has synchronised: p50, p99, worst.

#include "beside.h"

#include <random>
#include <thread>

int main(int argc, char **argv) {
  const double seconds = number(argc, argv, "--seconds", 4), period = number(argc, argv, "--period", 20) / 1000;
  const int kernels = int(number(argc, argv, "--kernels", 50)), blocks = int(number(argc, argv, "--blocks", 32));
  const size_t chain = size_t(number(argc, argv, "--chain", 10000));
  const bool priority = number(argc, argv, "--stream-priority", 0) != 0, random = number(argc, argv, "--random", 0) != 0;
  const size_t count = size_t(blocks) * 128;

  unsigned *words;
  CHECK(cudaMalloc(&words, count * sizeof *words));
  CHECK(cudaMemset(words, 1, count * sizeof *words));
  cudaStream_t stream = nullptr;
  if (priority) {
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  }
  auto burst = [&] {
    for (int k = 0; k < kernels; k++)
      advance<<<unsigned(blocks), 128, 0, stream>>>(words, chain);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
  };
  for (int warm = 0; warm < 5; warm++)
    burst();

  wait_for_start();
  std::mt19937 generator(1);
  std::exponential_distribution<double> pause(1 / period);
  std::vector<double> times;
  const Clock::time_point began = Clock::now();
  double due = 0;
  while (seconds_since(began) < seconds) {
    due += random ? pause(generator) : period;
    const double left = due - seconds_since(began);
    if (left > 0)
      std::this_thread::sleep_for(std::chrono::duration<double>(left));
    const double first = random ? due : seconds_since(began);
    burst();
    times.push_back((seconds_since(began) - first) * 1000);
    if (!random)
      due = std::max(due, seconds_since(began) - period);
  }
  const size_t worst = size_t(std::max_element(times.begin(), times.end()) - times.begin());
  std::sort(times.begin(), times.end());

  // The same words by the host: all threads of a block began alike.
  unsigned expected = 0x01010101u, found;
  const size_t steps = chain * size_t(kernels) * (times.size() + 5);
  unsigned factor = 1664525u, increment = 1013904223u;
  for (size_t left = steps; left != 0; left /= 2) {
    if (left % 2 == 1)
      expected = expected * factor + increment;
    increment = increment * factor + increment;
    factor *= factor;
  }
  CHECK(cudaMemcpy(&found, words + count - 1, sizeof found, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(words));
  printf("{\"bursts\":%zu,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"worst_ms\":%.3f,\"worst_at\":%zu,\"second_ms\":%.3f,\"right\":%s}\n", times.size(),
         quantile(times, 0.5), quantile(times, 0.99), times.back(), worst, times[times.size() - 2], found == expected ? "true" : "false");
  return found == expected ? 0 : 1;
}
