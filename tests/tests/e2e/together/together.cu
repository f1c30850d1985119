// A static task and the lazy task, used in turn: a launch of the first may reach the objects of the second, and needs
// both on the GPU.
//
//   together MIB ROUNDS    each of the two objects has so many MiB

#include <cstdio>
#include <cstdlib>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t error_ = (call);                                                                                       \
    if (error_ != cudaSuccess) {                                                                                       \
      printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_));                                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

constexpr int kThreads = 256;

__global__ void step(int *at, size_t words) {
  for (size_t i = threadIdx.x; i < words; i += kThreads * 64) at[i]++;
}

// Its address is known to another function: it is of the lazy task.
int *known;
void use_known(size_t words) { step<<<1, kThreads>>>(known, words); }
void (*volatile use)(size_t) = use_known;

int main(int, char **arguments) {
  const size_t words = (std::strtoul(arguments[1], nullptr, 10) << 20) / sizeof(int);
  const int rounds = std::atoi(arguments[2]);
  int *own, first = 0, second = 0;
  OK(cudaMalloc(&known, words * sizeof(int)));
  OK(cudaMemset(known, 0, words * sizeof(int)));
  OK(cudaMalloc(&own, words * sizeof(int)));
  OK(cudaMemset(own, 0, words * sizeof(int)));
  for (int round = 0; round < rounds; round++) {
    step<<<1, kThreads>>>(own, words);
    OK(cudaGetLastError());
    use(words);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
  }
  OK(cudaMemcpy(&first, own, sizeof first, cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(&second, known, sizeof second, cudaMemcpyDeviceToHost));
  OK(cudaFree(own));
  OK(cudaFree(known));
  printf(first == rounds && second == rounds ? "PASS\n" : "%d and %d\n", first, second);
  return first != rounds || second != rounds;
}
