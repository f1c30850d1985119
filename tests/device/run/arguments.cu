// Arguments of every kind: scalars, structures by value, vectors; templates.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// RUN: %mgb-clang -O0 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

struct Arguments {
  float *out;
  int n;
  double factors[3];
  char tag;
  bool flag;
};

// Writes to its own copy of the structure, as a kernel may.
__global__ void scale(Arguments a, bool negative, short offset, float4 vector) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a.factors[1] += 1;
  if (i < a.n)
    a.out[i] = (negative ? -1 : 1) * (i * a.factors[1] + offset + vector.w) + (a.flag ? a.tag : 0);
}

template <class T, int N> __global__ void fill(T *out, T value) {
  for (int k = 0; k < N; k++)
    out[threadIdx.x * N + k] = value * k;
}

__global__ void place(int *out) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}

int main() {
  {
    Array<float> out(100);
    scale<<<4, 32>>>(Arguments{out.data, 100, {0, 1, 0}, 3, true}, true, 5, make_float4(0, 0, 0, 2));
    auto values = out.get();
    for (int i = 0; i < 100; i++)
      EXPECT(values[i] == -(i * 2. + 7) + 3);
  }
  {
    Array<long> longs(16);
    Array<double> doubles(16);
    fill<long, 4><<<1, 4>>>(longs.data, 1L << 40);
    fill<double, 2><<<1, 8>>>(doubles.data, .5);
    EXPECT(longs.get()[15] == 3L << 40);
    EXPECT(doubles.get()[15] == .5);
  }
  {
    Array<int> out(2 * 3 * 4 * 5 * 2 * 3);
    place<<<dim3(2, 3, 4), dim3(5, 2, 3)>>>(out.data);
    auto values = out.get();
    for (int i = 0; i < (int)values.size(); i++)
      EXPECT(values[i] == i / 30 * 1000 + i % 30);
  }
  return finish();
}
