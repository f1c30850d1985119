// A program that picks devices itself: every part of its work goes to the device that has the most free memory just
// then. Under MGB its choice is remembered and answered, but where the parts run is for the scheduler to say.
//
//   devices [n] [parts]
//
//#Args: n=10000 parts=5
//#Stdout: devices: n=10000 parts=5 PASS
//#Lazy: pointers-in-memory
//#Record: parts * 4 * n

#include "common.h"
#include <vector>

struct Part {
  int device;
  unsigned *values;
};

__global__ void square(unsigned *values, size_t n, unsigned part) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    values[i] = unsigned(i * i) + part;
}

static int emptiest_device() {
  int count = 0, best = 0;
  size_t most = 0;
  CHECK(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; device++) {
    size_t available, total;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemGetInfo(&available, &total));
    if (available > most) {
      most = available;
      best = device;
    }
  }
  return best;
}

int main(int argc, char **argv) {
  size_t n = positive_argument(argc, argv, 1, 10000);
  size_t count = count_argument(argc, argv, 2, 5);
  std::vector<Part> parts;
  for (size_t p = 0; p < count; p++) {
    Part part{emptiest_device(), nullptr};
    CHECK(cudaSetDevice(part.device));
    CHECK(cudaMalloc(&part.values, n * sizeof(unsigned)));
    square<<<unsigned((n + 127) / 128), 128>>>(part.values, n, unsigned(p));
    CHECK_LAUNCH();
    parts.push_back(part);
  }

  bool right = true;
  std::vector<unsigned> result(n);
  for (size_t p = 0; p < count; p++) {
    int current = -1;
    CHECK(cudaSetDevice(parts[p].device));
    CHECK(cudaGetDevice(&current));
    right = right && current == parts[p].device;
    CHECK(cudaMemcpy(result.data(), parts[p].values, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
      right = right && result[i] == unsigned(i * i) + unsigned(p);
    CHECK(cudaFree(parts[p].values));
  }
  printf("devices: n=%zu parts=%zu ", n, count);
  return report(right);
}
