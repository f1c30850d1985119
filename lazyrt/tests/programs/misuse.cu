// What programs get wrong and CUDA answers with an error: so must MGB, and the program goes on. One case per argument;
// every case also holds natively, except where it says "mgb".
//
//   misuse CASE

#include "check.h"
#include <cstdint>

__global__ void add(int *values, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] += value;
}

static int *box(int count) {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, count * sizeof(int)));
  boxes[0] = {static_cast<unsigned char *>(pointer), count * sizeof(int)};
  OK(cudaMemset(pointer, 0, boxes[0].bytes));
  return reinterpret_cast<int *>(boxes[0].pointer);
}

static int last(const int *values, int count) {
  int value = -1;
  OK(cudaMemcpy(&value, values + count - 1, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

// Helpers that time anything that can be called take a kernel, too.
template <class Callable, class... Arguments> static void call(Callable callable, Arguments... arguments) {
  callable(arguments...);
}

// A kernel's name called without <<<...>>>: the launch fails, and nothing else.
static void plain_call() {
  constexpr int COUNT = 1000;
  int *values = box(COUNT);
  for (int round = 0; round < 3; round++) {
    call(add, values, COUNT, 100);
    EXPECT(cudaGetLastError() != cudaSuccess);
    add<<<8, 128>>>(values, COUNT, 1);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    EXPECT(last(values, COUNT) == round + 1);
  }
  OK(cudaFree(values));
}

extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

// mgb: where nothing was pushed the pop leaves values that no launch can have, not what lay in memory.
static void empty_pop() {
  dim3 grid(1, 2, 3), block(4, 5, 6);
  size_t shared = 7;
  cudaStream_t stream = reinterpret_cast<cudaStream_t>(0x1234567890);
  IS(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
  EXPECT(grid.x == 0 && grid.y == 0 && grid.z == 0 && block.x == 0 && block.y == 0 && block.z == 0);
  EXPECT(shared == 0 && stream == nullptr);
  IS(cudaGetLastError(), cudaErrorMissingConfiguration);
  OK(cudaGetLastError());
}

// Sizes that no host memory has, before there is a context and after.
static void registered() {
  static char page[1 << 16];
  for (int context = 0; context < 2; context++) {
    for (size_t size : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - size_t(page)})
      IS(cudaHostRegister(page, size, cudaHostRegisterDefault), cudaErrorInvalidValue);
    IS(cudaGetLastError(), cudaErrorInvalidValue);
    IS(cudaHostUnregister(page), cudaErrorHostMemoryNotRegistered);
    OK(cudaHostRegister(page, sizeof page, cudaHostRegisterDefault));
    OK(cudaHostUnregister(page));
    cudaGetLastError();
    OK(cudaFree(box(1)));
  }
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(plain_call), CASE(empty_pop), CASE(registered)};
  return play(argc, argv, cases);
}
