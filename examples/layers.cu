// A network of layers, whose weights lie in an array of device pointers, allocated in a loop; two buffers are turned, by
// an index, from layer to layer, and the kernel gets the pointers in a structure.
//
//   layers [width] [depth]
//
//#Args: width=96 depth=8
//#Stdout: layers: width=96 depth=8 PASS
//#Args: width=1 depth=1
//#Stdout: layers: width=1 depth=1 PASS
//#Args: width=300 depth=5
//#Stdout: layers: width=300 depth=5 PASS
//#Static: 1
//#Peak: 4 * width * width * depth + 2 * 4 * width

#include "common.h"
#include <vector>

static const size_t most = 64;

struct Layer {
  const unsigned *weights;
  const unsigned *in;
  unsigned *out;
  unsigned width;
};

// Thread i computes output i. Unsigned, so that sums wrap and stay exact.
__global__ void forward(Layer layer) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= layer.width)
    return;
  unsigned sum = 0;
  for (unsigned k = 0; k < layer.width; k++)
    sum += layer.weights[i * layer.width + k] * layer.in[k];
  layer.out[i] = sum ^ (sum >> 15);
}

int main(int argc, char **argv) {
  size_t width = positive_argument(argc, argv, 1, 96);
  size_t depth = positive_argument(argc, argv, 2, 8);
  if (depth > most) {
    fprintf(stderr, "at most %zu layers\n", most);
    return 2;
  }
  std::vector<std::vector<unsigned>> weights(depth, std::vector<unsigned>(width * width));
  std::vector<unsigned> expected(width), next(width), result(width);
  for (size_t layer = 0; layer < depth; layer++)
    for (size_t i = 0; i < width * width; i++)
      weights[layer][i] = unsigned((layer + 3) * i % 251);
  for (size_t i = 0; i < width; i++)
    expected[i] = unsigned(i * i % 127);

  unsigned *device_weights[most], *buffers[2];
  for (size_t layer = 0; layer < depth; layer++) {
    CHECK(cudaMalloc(&device_weights[layer], width * width * sizeof(unsigned)));
    CHECK(cudaMemcpy(device_weights[layer], weights[layer].data(), width * width * sizeof(unsigned),
                     cudaMemcpyHostToDevice));
  }
  for (int side = 0; side < 2; side++)
    CHECK(cudaMalloc(&buffers[side], width * sizeof(unsigned)));
  CHECK(cudaMemcpy(buffers[0], expected.data(), width * sizeof(unsigned), cudaMemcpyHostToDevice));
  for (size_t layer = 0; layer < depth; layer++) {
    Layer one = {device_weights[layer], buffers[layer % 2], buffers[(layer + 1) % 2], unsigned(width)};
    forward<<<(width + 63) / 64, 64>>>(one);
    CHECK_LAUNCH();
  }
  CHECK(cudaMemcpy(result.data(), buffers[depth % 2], width * sizeof(unsigned), cudaMemcpyDeviceToHost));
  for (size_t layer = 0; layer < depth; layer++)
    CHECK(cudaFree(device_weights[layer]));
  for (int side = 0; side < 2; side++)
    CHECK(cudaFree(buffers[side]));

  for (size_t layer = 0; layer < depth; layer++) {
    for (size_t i = 0; i < width; i++) {
      unsigned sum = 0;
      for (size_t k = 0; k < width; k++)
        sum += weights[layer][i * width + k] * expected[k];
      next[i] = sum ^ (sum >> 15);
    }
    expected = next;
  }
  printf("layers: width=%zu depth=%zu ", width, depth);
  return report(result == expected);
}
