// cuFFT: a wave there and back, with a kernel of ours that scales.
#include "check.h"
#include <cufft.h>

__global__ void scale(cufftComplex *data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    data[i].x /= n;
    data[i].y /= n;
  }
}

int main() {
  const int n = 1 << 16, frequency = 37;
  std::vector<cufftComplex> wave(n);
  for (int i = 0; i < n; i++)
    wave[i] = {float(std::cos(2 * M_PI * frequency * i / n)), 0};
  cufftComplex *data = to_device(wave);
  cufftHandle plan;
  OK(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
  OK(cufftExecC2C(plan, data, data, CUFFT_FORWARD));
  auto spectrum = to_host(data, n);
  for (int i = 0; i < n; i++)
    near(spectrum[i].x, i == frequency || i == n - frequency ? n / 2 : 0, n * 1e-3);
  OK(cufftExecC2C(plan, data, data, CUFFT_INVERSE));
  scale<<<n / 256, 256>>>(data, n);
  auto back = to_host(data, n);
  for (int i = 0; i < n; i++)
    near(back[i].x, wave[i].x, 1e-4);
  OK(cufftDestroy(plan));
  OK(cudaFree(data));
  printf("PASS\n");
}
