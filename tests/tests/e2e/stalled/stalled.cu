// Holds a task whose thread waits for another thread, with launches that nobody waits for, and begins one more there. Of
// mapped memory of the host it is not known when kernels use it, so that the program never counts as idle.
//
//   stalled OWN OTHER: makes the file OWN, and goes on once there is the file OTHER

#include <cstdio>
#include <mgb.h>
#include <pthread.h>
#include <unistd.h>

static const size_t BYTES = 24 << 20;

__global__ void fill(int *values, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = value + i;
}

static int *objects[2];
static cudaStream_t stream;

static void begin(uint32_t id) {
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = BYTES;
  mgb_task_site site = {sizeof(mgb_task_site), id, "stalled.cu", "begin"};
  mgb_task task = mgb_task_begin(&site, &need);
  mgb_task_use(&site, task);
  if (cudaMalloc((void **)&objects[id - 1], BYTES) != cudaSuccess)
    _exit(2);
  mgb_task_use(&site, task);
  fill<<<8, 128, 0, stream>>>(objects[id - 1], int(id));
  if (cudaGetLastError() != cudaSuccess)
    _exit(3);
}

int main(int argc, char **argv) {
  int *pinned = nullptr, *mapped = nullptr;
  if (argc != 3 || cudaStreamCreate(&stream) != cudaSuccess)
    return 4;
  if (cudaHostAlloc(&pinned, 4096, cudaHostAllocMapped) != cudaSuccess ||
      cudaHostGetDevicePointer(&mapped, pinned, 0) != cudaSuccess)
    return 5;
  begin(1);
  fclose(fopen(argv[1], "w"));
  while (access(argv[2], F_OK) != 0)
    usleep(1000);
  pthread_t thread;
  auto run = [](void *) -> void * {
    begin(2);
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, run, nullptr) != 0)
    return 6;
  pthread_join(thread, nullptr);
  if (cudaStreamSynchronize(stream) != cudaSuccess)
    return 7;
  for (int id = 1; id <= 2; id++) {
    int value = 0;
    if (cudaMemcpy(&value, objects[id - 1] + 9, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess || value != id + 9)
      return 8;
  }
  puts("right");
  return 0;
}
