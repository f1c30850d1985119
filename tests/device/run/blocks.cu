// Blocks that work together: barriers, static and dynamic shared memory.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

__global__ void reduce(const float *in, float *out, int n) {
  __shared__ float sums[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  sums[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k)
      sums[t] += sums[t + k];
    __syncthreads();
  }
  if (t == 0)
    atomicAdd(out, sums[0]);
}

constexpr int TILE = 16;

__global__ void multiply(const float *a, const float *b, float *c, int n) {
  __shared__ float left[TILE][TILE], right[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
  float sum = 0;
  for (int t = 0; t < n / TILE; t++) {
    left[y][x] = a[row * n + t * TILE + x];
    right[y][x] = b[(t * TILE + y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; k++)
      sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void histogram(const unsigned char *data, int n, unsigned *counts) {
  extern __shared__ unsigned bins[];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[data[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    atomicAdd(&counts[i], bins[i]);
}

// A barrier in a function that is not inlined, reached by some threads early.
__device__ __noinline__ void turn(int *values, int t) {
  int own = values[t];
  __syncthreads();
  values[blockDim.x - 1 - t] = own;
  __syncthreads();
}

__global__ void reverse(int *data) {
  __shared__ int values[64];
  values[threadIdx.x] = data[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  turn(values, threadIdx.x);
  data[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x];
}

__global__ void predicates(int *out) {
  int t = threadIdx.x, count = __syncthreads_count(t % 3 == 0), any = __syncthreads_or(t == 7),
      all = __syncthreads_and(t < 99);
  if (t == 50)
    out[0] = count, out[1] = any != 0, out[2] = all != 0;
}

int main() {
  {
    Array<float> in(std::vector<float>(1000, 1)), out(1);
    reduce<<<4, 256>>>(in.data, out.data, 1000);
    EXPECT(out.get()[0] == 1000);
  }
  {
    int n = 64;
    std::vector<float> a(n * n), b(n * n);
    for (int i = 0; i < n * n; i++)
      a[i] = i % 7, b[i] = i % 5;
    Array<float> left(a), right(b), product(n * n);
    multiply<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(left.data, right.data, product.data, n);
    auto c = product.get();
    for (int row = 0; row < n; row++)
      for (int column = 0; column < n; column++) {
        float sum = 0;
        for (int k = 0; k < n; k++)
          sum += a[row * n + k] * b[k * n + column];
        EXPECT(sum == c[row * n + column]);
      }
  }
  {
    std::vector<unsigned char> bytes(10000);
    std::vector<unsigned> wanted(256);
    for (int i = 0; i < 10000; i++)
      wanted[bytes[i] = i * 31]++;
    Array<unsigned char> data(bytes);
    Array<unsigned> counts(256);
    histogram<<<8, 64, 256 * sizeof(unsigned)>>>(data.data, 10000, counts.data);
    EXPECT(counts.get() == wanted);
  }
  {
    std::vector<int> values(128);
    for (int i = 0; i < 128; i++)
      values[i] = i;
    Array<int> data(values);
    reverse<<<2, 64>>>(data.data);
    EXPECT(data.get()[0] == 63 && data.get()[64] == 127 && data.get()[127] == 64);
  }
  {
    Array<int> out(3);
    predicates<<<1, 100>>>(out.data);
    EXPECT(out.get() == (std::vector<int>{34, 1, 0}));
  }
  return finish();
}
