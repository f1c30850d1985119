// A seed-driven program with a model of what every byte must be: allocations and frees of all sizes, copies
// and sets of ranges, kernels over objects and over objects that hold pointers to others, in several threads.
//
//   random SEED STEPS THREADS

#include "check.h"
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

__global__ void add(unsigned char *bytes, size_t count, int value) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    bytes[i] += value;
}

// `list` holds pointers to other objects: what a launch reaches is not in its arguments alone.
__global__ void add_through(unsigned char **list, int which, size_t count, int value) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    list[which][i] += value;
}

struct Object {
  unsigned char *device;
  std::vector<unsigned char> model;
};

class Thread {
public:
  Thread(unsigned seed, int steps) : random(seed), steps(steps) {}

  void run() {
    for (int i = 0; i < steps; i++)
      step();
    while (!objects.empty())
      release(0);
  }

private:
  std::mt19937 random;
  int steps;
  std::vector<Object> objects;

  size_t below(size_t bound) { return random() % bound; }

  void allocate() {
    const size_t most[] = {300, 5000, 70000, 1100000, 5000000};
    Object object;
    object.model.resize(1 + below(most[below(5)]));
    OK(cudaMalloc(&object.device, object.model.size()));
    unsigned char value = (unsigned char)random();
    OK(cudaMemset(object.device, value, object.model.size()));
    object.model.assign(object.model.size(), value);
    objects.push_back(object);
  }

  void compare(Object &object) {
    std::vector<unsigned char> host(object.model.size());
    OK(cudaMemcpy(host.data(), object.device, host.size(), below(2) ? cudaMemcpyDeviceToHost : cudaMemcpyDefault));
    for (size_t i = 0; i < host.size(); i++)
      EXPECT(host[i] == object.model[i]);
  }

  void release(size_t index) {
    compare(objects[index]);
    OK(cudaFree(objects[index].device));
    objects[index] = objects.back();
    objects.pop_back();
  }

  void write(Object &object, size_t at, size_t count) {
    std::vector<unsigned char> host(count);
    for (size_t i = 0; i < count; i++)
      object.model[at + i] = host[i] = (unsigned char)(random() >> 7);
    if (below(2)) {
      OK(cudaMemcpy(object.device + at, host.data(), count, cudaMemcpyHostToDevice));
    } else {
      OK(cudaMemcpyAsync(object.device + at, host.data(), count, cudaMemcpyHostToDevice, 0));
      // The bytes of pageable memory are the runtime's by now.
    }
    std::fill(host.begin(), host.end(), 0xcc);
  }

  void copy(Object &from, Object &to) {
    size_t count = 1 + below(std::min(from.model.size(), to.model.size()));
    size_t source = below(from.model.size() - count + 1), target = below(to.model.size() - count + 1);
    if (&from == &to)
      return;
    OK(cudaMemcpy(to.device + target, from.device + source, count, cudaMemcpyDeviceToDevice));
    std::copy_n(from.model.begin() + source, count, to.model.begin() + target);
  }

  void launch(Object &object) {
    int value = 1 + int(below(7));
    add<<<1 + unsigned(below(4)), 64>>>(object.device, object.model.size(), value);
    OK(cudaGetLastError());
    for (unsigned char &byte : object.model)
      byte = (unsigned char)(byte + value);
  }

  void launch_through() {
    std::vector<unsigned char *> pointers;
    for (Object &object : objects)
      pointers.push_back(object.device);
    unsigned char **list = nullptr;
    OK(cudaMalloc(&list, pointers.size() * sizeof *list));
    OK(cudaMemcpy(list, pointers.data(), pointers.size() * sizeof *list, cudaMemcpyHostToDevice));
    size_t which = below(objects.size());
    add_through<<<2, 64>>>(list, int(which), objects[which].model.size(), 3);
    OK(cudaGetLastError());
    for (unsigned char &byte : objects[which].model)
      byte = (unsigned char)(byte + 3);
    OK(cudaFree(list));
  }

  void step() {
    if (objects.empty() || (objects.size() < 12 && below(4) == 0))
      return allocate();
    Object &object = objects[below(objects.size())];
    size_t at = below(object.model.size()), count = 1 + below(object.model.size() - at);
    switch (below(9)) {
    case 0:
      return release(size_t(&object - objects.data()));
    case 1:
    case 2:
      return write(object, at, count);
    case 3: {
      unsigned char value = (unsigned char)random();
      OK(cudaMemset(object.device + at, value, count));
      std::fill_n(object.model.begin() + at, count, value);
      return;
    }
    case 4:
      return copy(object, objects[below(objects.size())]);
    case 5:
    case 6:
      return launch(object);
    case 7:
      return launch_through();
    case 8:
      if (below(4) == 0)
        OK(cudaDeviceSynchronize());
      return compare(object);
    }
  }
};

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  unsigned seed = unsigned(atoi(argv[1]));
  int steps = atoi(argv[2]), count = atoi(argv[3]);
  std::vector<std::thread> threads;
  for (int i = 1; i < count; i++)
    threads.emplace_back([=] { Thread(seed * 31 + unsigned(i), steps).run(); });
  Thread(seed * 31, steps).run();
  for (std::thread &thread : threads)
    thread.join();
  printf("random: seed=%u PASS\n", seed);
  return 0;
}
