// What AddressSanitizer must find, planted: a use of it that finds nothing in the conformance set proves something only
// if it finds these.
//
//   plants NAME
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr int kRow = 8;

// Writes past a local array, where threads have stacks of their own: after a barrier they were switched.
__global__ void local_array(int *out, int n) {
  int row[kRow];
  for (int i = 0; i < kRow; i++)
    row[i] = i;
  __syncthreads();
  for (int i = 0; i < n; i++)
    row[i] += out[i % kRow];
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x % kRow];
}

// The same without a barrier: threads run as a loop.
__global__ void loop(int *out, int n) {
  int row[kRow];
  for (int i = 0; i < n; i++)
    row[i] = out[i % kRow];
  out[threadIdx.x] = row[threadIdx.x % kRow];
}

int main(int count, char **arguments) {
  const std::string name = count > 1 ? arguments[1] : "";
  int *device;
  if (cudaMalloc(&device, 32 * sizeof(int)) != cudaSuccess)
    return 2;
  cudaMemset(device, 0, 32 * sizeof(int));
  std::vector<int> host(32);
  if (name == "nothing") {
    local_array<<<1, 32>>>(device, kRow);
    loop<<<1, 32>>>(device, kRow);
    cudaMemcpy(host.data(), device, 32 * sizeof(int), cudaMemcpyDeviceToHost);
  } else if (name == "local array") {
    local_array<<<1, 32>>>(device, kRow + 1);
  } else if (name == "loop") {
    loop<<<1, 32>>>(device, kRow + 1);
  } else if (name == "copy") {
    std::vector<int> few(31);
    // Read by softgpu itself, beyond what there is.
    cudaMemcpy(device, few.data(), 32 * sizeof(int), cudaMemcpyHostToDevice);
  } else {
    return 2;
  }
  const cudaError_t code = cudaDeviceSynchronize();
  std::puts(cudaGetErrorName(code));
  cudaFree(device);
}
