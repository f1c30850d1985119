// What C++ has beyond loops over arrays: the device's heap, virtual calls, function pointers, recursion.
// REQUIRES: softgpu
// RUN: %mgb-clang -O2 %s -o %t && %softgpu %t | FileCheck %s
// CHECK: passed
#include "check.h"

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ Circle(float radius) : radius(radius) {}
  __device__ float area() const override { return 3 * radius * radius; }
};

__global__ void make(Shape **shapes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    shapes[i] = i % 2 ? (Shape *)new Square(i) : new Circle(i);
}
__global__ void measure(Shape **shapes, float *areas, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    areas[i] = shapes[i]->area();
    delete shapes[i];
  }
}

__global__ void heap(int *out) {
  int *mine = (int *)malloc(16 * sizeof(int));
  for (int i = 0; i < 16; i++)
    mine[i] = i * threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 16; i++)
    sum += mine[i];
  free(mine);
  out[threadIdx.x] = sum + (malloc(1u << 30) == nullptr);
}

using Operation = int (*)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ Operation operations[] = {plus, minus};
__global__ void pointers(int *out) { out[threadIdx.x] = operations[threadIdx.x % 2](10, threadIdx.x); }

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursion(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

struct Big {
  int values[40];
};
__device__ int last(Big big) { return big.values[39]++; }
__global__ void by_value(Big big, int *out) { *out = last(big) + last(big); }
__global__ void constant(const __grid_constant__ Big big, int *out) { *out = big.values[*out]; }

__global__ void early(int *out) {
  if (threadIdx.x % 2)
    asm volatile("exit;");
  out[threadIdx.x] = 1;
}

int main() {
  {
    Array<Shape *> shapes(100);
    Array<float> areas(100);
    make<<<2, 64>>>(shapes.data, 100);
    measure<<<2, 64>>>(shapes.data, areas.data, 100);
    EXPECT(areas.get()[3] == 9 && areas.get()[4] == 48);
  }
  {
    Array<int> out(32);
    heap<<<1, 32>>>(out.data);
    EXPECT(out.get()[3] == 361);
  }
  {
    Array<int> out(4);
    pointers<<<1, 4>>>(out.data);
    EXPECT(out.get() == (std::vector<int>{10, 9, 12, 7}));
  }
  {
    Array<int> out(16);
    recursion<<<1, 16>>>(out.data);
    EXPECT(out.get()[15] == 610);
  }
  {
    Big big = {};
    big.values[39] = 7;
    Array<int> out(std::vector<int>{39});
    constant<<<1, 1>>>(big, out.data);
    EXPECT(out.get()[0] == 7);
    by_value<<<1, 1>>>(big, out.data);
    EXPECT(out.get()[0] == 14);
  }
  {
    Array<int> out(8);
    early<<<1, 8>>>(out.data);
    EXPECT(out.get() == (std::vector<int>{1, 0, 1, 0, 1, 0, 1, 0}));
  }
  return finish();
}
