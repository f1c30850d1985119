// What libraries do: beside its own array the program takes device memory that nobody under the runtime asks for, by a
// call of the driver's. MGB sees it only afterwards, and keeps room for it in the next run.
//
//   workspace [MiB] [workspace MiB] [file] [file]
//
// It waits until the first file is there before it takes the workspace, and for the second before it ends.
//
//#Args: mib=2 workspace_mib=4
//#Stdout: workspace: mib=2 workspace_mib=4 PASS
//#Static: 1
//#Peak: mib * 1048576

#include "common.h"
#include <dlfcn.h>
#include <unistd.h>
#include <vector>

__global__ void add_index(unsigned *values, size_t n) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    values[i] += unsigned(i);
}

// The driver's function of this name; a program that is linked to the runtime only has to look for it.
template <class Function> static Function *driver_function(const char *name) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *function = driver ? dlsym(driver, name) : nullptr;
  if (!function) {
    fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    exit(2);
  }
  return reinterpret_cast<Function *>(function);
}

static void wait_for(const char *file) {
  while (file && access(file, F_OK) != 0)
    usleep(1000);
}

int main(int argc, char **argv) {
  size_t mib = positive_argument(argc, argv, 1, 2);
  size_t workspace_mib = positive_argument(argc, argv, 2, 4);
  const char *before = argc > 3 ? argv[3] : nullptr;
  const char *after = argc > 4 ? argv[4] : nullptr;
  size_t n = mib * 1048576 / sizeof(unsigned);
  unsigned blocks = unsigned((n + 255) / 256);
  std::vector<unsigned> result(n);

  unsigned *values;
  CHECK(cudaMalloc(&values, n * sizeof(unsigned)));
  CHECK(cudaMemset(values, 0, n * sizeof(unsigned)));
  add_index<<<blocks, 256>>>(values, n);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());

  wait_for(before);
  auto *allocate = driver_function<int(size_t *, size_t)>("cuMemAlloc_v2");
  auto *release = driver_function<int(size_t)>("cuMemFree_v2");
  size_t workspace = 0;
  if (int error = allocate(&workspace, workspace_mib * 1048576)) {
    fprintf(stderr, "no memory for the workspace: error %d\n", error);
    exit(2);
  }
  wait_for(after);

  add_index<<<blocks, 256>>>(values, n);
  CHECK_LAUNCH();
  CHECK(cudaMemcpy(result.data(), values, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  bool right = release(workspace) == 0;
  CHECK(cudaFree(values));
  for (size_t i = 0; i < n; i++)
    right = right && result[i] == 2 * unsigned(i);
  printf("workspace: mib=%zu workspace_mib=%zu %s\n", mib, workspace_mib, right ? "PASS" : "FAIL");
  return right ? 0 : 1;
}
