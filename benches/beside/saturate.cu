// A program that keeps a GPU at work in one of several ways, for what runs beside it.
//
//   saturate KIND [--seconds N] [--ahead N]
//
//   products   products of matrices of 8192 x 8192 bf16 elements by cuBLAS: some 1.5 ms, blocks live as long as the kernel
//   training   steps of 24 smaller products and element-wise kernels; the host waits for each step
//   sweeps     y = a x + y over 1 GiB: some 1 ms, and bound by memory
//   short      the same over 128 MiB: some 0.15 ms
//   blocks20   kernels of 2 ms whose blocks live for 20 us; where the compiler folds eight turns of their loop into one, as clang
//              and nvcc do at -O2, 0.3 ms and 3 us
//   blocks2000 kernels whose blocks live for 2 ms, or 0.3 ms, and fill the GPU
//   long       kernels of 200 ms, or 32 ms, of blocks as those of blocks20, one at a time
//   tiny       kernels of some 3 us
//
// It launches `ahead` units (16) before it waits for them, prints "ready", waits for a line, and prints a line of JSON:
// units done in `seconds` (4), and the milliseconds of a unit.

#include "beside.h"

#include <dlfcn.h>

constexpr int kMultiprocessors = 132;

__global__ void axpy(float *y, const float *x, size_t count) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    y[i] = 0.5f * x[i] + 0.25f * y[i];
}

__global__ void relu(unsigned short *x, size_t count) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count && (x[i] & 0x8000))
    x[i] = 0;
}

// cuBLAS, found at run time: what runs without it needs no such library.
class Products {
public:
  Products() {
    void *library = dlopen("libcublas.so.13", RTLD_NOW);
    if (library == nullptr) {
      fprintf(stderr, "saturate: %s\n", dlerror());
      exit(5);
    }
    auto create = reinterpret_cast<int (*)(void **)>(dlsym(library, "cublasCreate_v2"));
    multiply = reinterpret_cast<Multiply>(dlsym(library, "cublasGemmEx"));
    if (create == nullptr || multiply == nullptr || create(&handle) != 0) {
      fprintf(stderr, "saturate: cuBLAS does not begin\n");
      exit(5);
    }
  }

  // C = A B, of m x k and k x n elements of bf16.
  void operator()(unsigned short *c, const unsigned short *a, const unsigned short *b, int m, int n, int k) {
    const float one = 1, zero = 0;
    constexpr int kBf16 = 14, kCompute32F = 68, kDefault = -1;
    if (multiply(handle, 0, 0, m, n, k, &one, a, kBf16, m, b, kBf16, k, &zero, c, kBf16, m, kCompute32F, kDefault) != 0) {
      fprintf(stderr, "saturate: a product failed\n");
      exit(5);
    }
  }

private:
  using Multiply = int (*)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
                           const void *, void *, int, int, int, int);
  void *handle = nullptr;
  Multiply multiply = nullptr;
};

template <typename T> T *device_memory(size_t count) {
  T *memory;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  CHECK(cudaMemset(memory, 0, count * sizeof(T)));
  return memory;
}

// Runs units until the time is over, `ahead` at a time.
template <typename Unit> void run(int argc, char **argv, const char *kind, int ahead, Unit unit) {
  const double seconds = number(argc, argv, "--seconds", 4);
  ahead = int(number(argc, argv, "--ahead", ahead));
  for (int warm = 0; warm < 3; warm++)
    unit();
  CHECK(cudaDeviceSynchronize());
  wait_for_start();
  const Clock::time_point began = Clock::now();
  size_t units = 0;
  while (seconds_since(began) < seconds) {
    for (int i = 0; i < ahead; i++)
      unit();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    units += size_t(ahead);
  }
  const double took = seconds_since(began);
  printf("{\"kind\":\"%s\",\"units\":%zu,\"seconds\":%.3f,\"ms\":%.4f}\n", kind, units, took, took * 1000 / double(units));
}

int main(int argc, char **argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "products") {
    constexpr int kSide = 8192;
    constexpr size_t kCount = size_t(kSide) * kSide;
    Products multiply;
    auto *a = device_memory<unsigned short>(kCount), *b = device_memory<unsigned short>(kCount),
         *c = device_memory<unsigned short>(kCount);
    run(argc, argv, "products", 16, [&] { multiply(c, a, b, kSide, kSide, kSide); });
  } else if (kind == "training") {
    constexpr int kRows = 2048, kUnits = 2048;
    constexpr size_t kCount = size_t(kRows) * kUnits;
    Products multiply;
    auto *a = device_memory<unsigned short>(kCount), *b = device_memory<unsigned short>(kCount),
         *w = device_memory<unsigned short>(kCount);
    run(argc, argv, "training", 1, [&] {
      for (int layer = 0; layer < 12; layer++) {
        multiply(b, a, w, kRows, kUnits, kUnits);
        relu<<<unsigned(kCount / 256), 256>>>(b, kCount);
        multiply(a, b, w, kRows, kUnits, kUnits);
        relu<<<unsigned(kCount / 256), 256>>>(a, kCount);
      }
    });
  } else if (kind == "sweeps" || kind == "short") {
    const size_t count = (kind == "sweeps" ? size_t(1) << 30 : size_t(1) << 27) / 4;
    auto *x = device_memory<float>(count), *y = device_memory<float>(count);
    run(argc, argv, kind.c_str(), 16, [&] { axpy<<<unsigned(count / 256), 256>>>(y, x, count); });
  } else if (kind == "blocks20" || kind == "blocks2000" || kind == "long") {
    // 16 blocks of 128 threads fill a multiprocessor.
    const size_t rounds = kind == "long" ? 10000 : kind == "blocks20" ? 100 : 1, steps = kind == "blocks2000" ? 110000 : 1100;
    const unsigned blocks = unsigned(kMultiprocessors * 16 * rounds);
    auto *words = device_memory<unsigned>(size_t(blocks) * 128);
    run(argc, argv, kind.c_str(), kind == "long" ? 1 : 16, [&] { advance<<<blocks, 128>>>(words, steps); });
  } else if (kind == "tiny") {
    auto *words = device_memory<unsigned>(128 * 32);
    run(argc, argv, "tiny", 256, [&] { advance<<<32, 128>>>(words, 100); });
  } else {
    fprintf(stderr, "usage: saturate products|training|sweeps|short|blocks20|blocks2000|long|tiny [--seconds N] [--ahead N]\n");
    return 2;
  }
  return 0;
}
