// cuRAND: uniform numbers of two generators with one seed are the same; their mean by a kernel of ours.
#include "check.h"
#include <curand.h>

__global__ void add(const float *numbers, int count, double *sum) {
  double own = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    own += numbers[i];
  atomicAdd(sum, own);
}

int main() {
  const int count = 1 << 20;
  float *numbers[2];
  for (float *&each : numbers) {
    OK(cudaMalloc(&each, count * sizeof(float)));
    curandGenerator_t generator;
    OK(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    OK(curandSetPseudoRandomGeneratorSeed(generator, 1234));
    OK(curandGenerateUniform(generator, each, count));
    OK(curandDestroyGenerator(generator));
  }
  double *sum = to_device(std::vector<double>(1, 0));
  add<<<64, 256>>>(numbers[0], count, sum);
  near(to_host(sum, 1)[0] / count, 0.5, 0.002);
  auto first = to_host(numbers[0], count), second = to_host(numbers[1], count);
  EXPECT(first == second);
  OK(cudaFree(numbers[0]));
  OK(cudaFree(numbers[1]));
  OK(cudaFree(sum));
  printf("%.6f %.6f PASS\n", first[0], first[count - 1]);
}
