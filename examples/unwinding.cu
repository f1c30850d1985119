// Destructors in scope: with them every CUDA call becomes an invoke, because an exception would have to unwind
// through this frame. Asked to, the program throws half-way, between two launches; the guards free the device
// memory on the way out, and main() checks what was finished by then.
//
//   unwinding [n] [throw: 0 or 1]
//
//#Args: n=30000 throw=1
//#Stdout: unwinding: n=30000 thrown=1 PASS
//#Args: n=30000 throw=0
//#Stdout: unwinding: n=30000 thrown=0 PASS
//#Static: 1
//#Peak: 2 * 4 * n

#include "common.h"
#include <stdexcept>
#include <vector>

__global__ void fill(int *out, int start, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = start + int(i);
}

__global__ void negate(const int *in, int *out, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = -in[i];
}

// Frees device memory when its scope ends, however it ends.
struct Freed {
  void *memory;
  ~Freed() { cudaFree(memory); }
};

// What a real program would find out only now: that it cannot go on.
static void half_way(bool give_up) {
  if (give_up)
    throw std::runtime_error("asked to give up half-way");
}

static void compute(std::vector<int> &filled, std::vector<int> &negated, bool give_up) {
  size_t n = filled.size();
  int *first, *second;
  CHECK(cudaMalloc(&first, n * sizeof(int)));
  Freed first_guard{first};
  CHECK(cudaMalloc(&second, n * sizeof(int)));
  Freed second_guard{second};

  fill<<<(n + 255) / 256, 256>>>(first, 5, n);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(filled.data(), first, n * sizeof(int), cudaMemcpyDeviceToHost));
  half_way(give_up);
  negate<<<(n + 255) / 256, 256>>>(first, second, n);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(negated.data(), second, n * sizeof(int), cudaMemcpyDeviceToHost));
}

int main(int argc, char **argv) {
  size_t n = count_argument(argc, argv, 1, 30000);
  bool give_up = count_argument(argc, argv, 2, 1) != 0;
  std::vector<int> filled(n), negated(n);
  bool thrown = false;
  try {
    compute(filled, negated, give_up);
  } catch (const std::runtime_error &) {
    thrown = true;
  }

  bool right = thrown == give_up;
  for (size_t i = 0; i < n; i++) {
    right = right && filled[i] == 5 + int(i);
    right = right && negated[i] == (thrown ? 0 : -filled[i]);
  }
  printf("unwinding: n=%zu thrown=%d ", n, thrown ? 1 : 0);
  return report(right);
}
