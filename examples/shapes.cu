// A class hierarchy that lives on the device: one kernel constructs objects of three classes in place, another calls
// their virtual functions. Tables of virtual functions differ between host and device, so the objects must be made
// where they are used. The kernels keep their addresses in memory, so that the task is lazy.
//
//   shapes [n]
//
//#Args: n=3000
//#Stdout: shapes: n=3000 PASS
//#Lazy: address-escapes
//#Record: 16 * n + 8 * n + 4 * n

#include "common.h"
#include <new>
#include <vector>

struct Shape {
  // Not pure: at -O0 a pure one is an error of clang's, device code having no function to put in its place.
  __device__ virtual unsigned area() const { return 0; }
  // Calls the override of whatever the object is.
  __device__ unsigned twice_the_area() const { return 2 * area(); }
};

struct Square : Shape {
  unsigned side;
  __device__ explicit Square(unsigned s) : side(s) {}
  __device__ unsigned area() const override { return side * side; }
};

struct Rectangle : Shape {
  unsigned short width, height;
  __device__ Rectangle(unsigned w, unsigned h) : width(w), height(h) {}
  __device__ unsigned area() const override { return unsigned(width) * height; }
};

// Derived twice: the half of a rectangle.
struct Triangle : Rectangle {
  __device__ Triangle(unsigned w, unsigned h) : Rectangle(w, h) {}
  __device__ unsigned area() const override { return Rectangle::area() / 2; }
};

struct alignas(8) Place {
  char bytes[16];
};
static_assert(sizeof(Square) <= sizeof(Place) && sizeof(Triangle) <= sizeof(Place), "every shape fits its place");

__global__ void construct(Place *places, Shape **shapes, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned size = i % 100 + 1;
  if (i % 3 == 0)
    shapes[i] = new (places + i) Square(size);
  else if (i % 3 == 1)
    shapes[i] = new (places + i) Rectangle(size, size + 2);
  else
    shapes[i] = new (places + i) Triangle(size, size + 5);
}

__global__ void measure(Shape *const *shapes, unsigned *areas, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    areas[i] = shapes[i]->area() + shapes[i]->twice_the_area();
}

static unsigned expected_area(unsigned i) {
  unsigned size = i % 100 + 1;
  if (i % 3 == 0)
    return size * size;
  if (i % 3 == 1)
    return size * (size + 2);
  return size * (size + 5) / 2;
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 3000);
  unsigned blocks = unsigned((n + 127) / 128);
  Place *places;
  Shape **shapes;
  unsigned *areas;
  CHECK(cudaMalloc(&places, n * sizeof(Place)));
  CHECK(cudaMalloc(&shapes, n * sizeof(Shape *)));
  CHECK(cudaMalloc(&areas, n * sizeof(unsigned)));
  construct<<<blocks, 128>>>(places, shapes, unsigned(n));
  CHECK_LAUNCH();
  measure<<<blocks, 128>>>(shapes, areas, unsigned(n));
  CHECK_LAUNCH();
  std::vector<unsigned> result(n);
  CHECK(cudaMemcpy(result.data(), areas, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(places));
  CHECK(cudaFree(shapes));
  CHECK(cudaFree(areas));

  bool right = true;
  for (size_t i = 0; i < n; i++)
    right = right && result[i] == 3 * expected_area(unsigned(i));
  printf("shapes: n=%zu ", n);
  return report(right);
}
