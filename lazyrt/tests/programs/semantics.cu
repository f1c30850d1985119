// The lazy runtime against CUDA's own rules, one case per argument. Every case also holds natively, except
// where it says "mgb".

#include "check.h"
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void add(unsigned char *bytes, size_t count, int value) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

__device__ int factor = 3;
__global__ void scale(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] *= factor;
}

static void run(const Box &box, int value) {
  add<<<unsigned((box.bytes + 127) / 128), 128>>>(box.pointer, box.bytes, value);
  OK(cudaGetLastError());
}

static void make(Box &box, size_t bytes) {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, bytes));
  box.pointer = static_cast<unsigned char *>(pointer);
  box.bytes = bytes;
}

static void check(const Box &box, int value, size_t from = 0, size_t to = size_t(-1)) {
  std::vector<unsigned char> host(box.bytes);
  OK(cudaMemcpy(host.data(), box.pointer, box.bytes, cudaMemcpyDeviceToHost));
  for (size_t i = from; i < box.bytes && i < to; i++)
    EXPECT(host[i] == (unsigned char)value);
}

// Addresses: zero bytes, null, alignment, ends, double frees.
static void addresses() {
  void *pointer = &pointer;
  OK(cudaMalloc(&pointer, 0));
  EXPECT(pointer == nullptr);
  OK(cudaFree(nullptr));
  IS(cudaMalloc(static_cast<void **>(nullptr), 1), cudaErrorInvalidValue);
  IS(cudaGetLastError(), cudaErrorInvalidValue);
  OK(cudaGetLastError());
  for (size_t i = 0; i < 32; i++) {
    make(boxes[i], 1 + i * i * 100);
    EXPECT(size_t(boxes[i].pointer) % 256 == 0);
  }
  IS(cudaFree(boxes[9].pointer + 1), cudaErrorInvalidValue);
  for (size_t i = 0; i < 32; i += 2)
    OK(cudaFree(boxes[i].pointer));
  IS(cudaFree(boxes[4].pointer), cudaErrorInvalidValue);
  for (size_t i = 1; i < 32; i += 2)
    OK(cudaFree(boxes[i].pointer));
  cudaGetLastError();
  // Never fits: at once, and what fits goes on.
  IS(cudaMalloc(&pointer, size_t(1) << 45), cudaErrorMemoryAllocation);
  IS(cudaMalloc(&pointer, ~size_t(0)), cudaErrorMemoryAllocation);
  IS(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  IS(cudaGetLastError(), cudaErrorMemoryAllocation);
  make(boxes[0], 1000);
  OK(cudaMemset(boxes[0].pointer, 1, 1000));
  run(boxes[0], 1);
  check(boxes[0], 2);
  OK(cudaFree(boxes[0].pointer));
}

// Before any GPU is bound: host bytes are taken at the call, sets and copies keep their order.
static void recorded() {
  make(boxes[0], 4096);
  make(boxes[1], 3 << 20);
  std::vector<unsigned char> host(4096, 5);
  OK(cudaMemset(boxes[0].pointer, 1, 4096));
  OK(cudaMemset(boxes[1].pointer, 2, boxes[1].bytes));
  OK(cudaMemcpy(boxes[0].pointer, host.data(), 4096, cudaMemcpyHostToDevice));
  OK(cudaMemcpyAsync(boxes[0].pointer + 100, host.data(), 50, cudaMemcpyDefault, 0));
  OK(cudaMemsetAsync(boxes[0].pointer + 4000, 9, 96, 0));
  OK(cudaDeviceSynchronize());
  memset(host.data(), 77, host.size());
  // Freed before it was ever backed, its address used again.
  make(boxes[2], 2 << 20);
  OK(cudaMemset(boxes[2].pointer, 99, boxes[2].bytes));
  OK(cudaFree(boxes[2].pointer));
  run(boxes[0], 1);
  run(boxes[1], 1);
  check(boxes[0], 6, 0, 4000);
  check(boxes[0], 10, 4000);
  check(boxes[1], 3);
}

// Copies of all kinds, interior pointers, ends of objects.
static void copies() {
  make(boxes[0], 10000);
  make(boxes[1], 3 << 20);
  std::vector<unsigned char> host(3 << 20, 7);
  // Large: binds.
  OK(cudaMemcpy(boxes[1].pointer, host.data(), host.size(), cudaMemcpyHostToDevice));
  OK(cudaMemcpy(boxes[0].pointer, boxes[1].pointer + 1234, 10000, cudaMemcpyDeviceToDevice));
  check(boxes[0], 7);
  OK(cudaMemset(boxes[0].pointer + 5000, 8, 5000));
  OK(cudaMemcpy(boxes[1].pointer + 9, boxes[0].pointer + 4990, 20, cudaMemcpyDefault));
  OK(cudaMemcpy(host.data(), boxes[1].pointer, 64, cudaMemcpyDefault));
  for (int i = 0; i < 64; i++)
    EXPECT(host[i] == (i >= 19 && i < 29 ? 8 : 7));
  unsigned char from[16], to[16] = {};
  memset(from, 3, 16);
  OK(cudaMemcpy(to, from, 16, cudaMemcpyHostToHost));
  EXPECT(memcmp(from, to, 16) == 0);
  IS(cudaMemcpy(boxes[0].pointer, host.data(), 10001, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  IS(cudaMemcpy(boxes[0].pointer, host.data(), 1, cudaMemcpyKind(9)), cudaErrorInvalidMemcpyDirection);
  IS(cudaMemset(boxes[0].pointer + 9000, 0, 1001), cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaMemcpy(boxes[0].pointer, host.data(), 0, cudaMemcpyHostToDevice));
  // Rows.
  void *rows = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&rows, &pitch, 100, 10));
  EXPECT(pitch >= 100 && pitch % 256 == 0);
  boxes[2].pointer = static_cast<unsigned char *>(rows);
  std::vector<unsigned char> plane(1000);
  for (size_t i = 0; i < plane.size(); i++)
    plane[i] = (unsigned char)(i * 7);
  OK(cudaMemset2D(boxes[2].pointer, pitch, 1, 100, 10));
  OK(cudaMemcpy2D(boxes[2].pointer, pitch, plane.data(), 100, 100, 9, cudaMemcpyHostToDevice));
  std::vector<unsigned char> back(1000);
  OK(cudaMemcpy2D(back.data(), 100, boxes[2].pointer, pitch, 100, 10, cudaMemcpyDeviceToHost));
  EXPECT(memcmp(plane.data(), back.data(), 900) == 0);
  EXPECT(back[950] == 1);
}

// Boxes: memory with a pitch in three dimensions, sets and copies of parts of it.
static void volumes() {
  const size_t width = 300, height = 20, depth = 30;
  cudaPitchedPtr volume, other;
  OK(cudaMalloc3D(&volume, make_cudaExtent(width, height, depth)));
  OK(cudaMalloc3D(&other, make_cudaExtent(width, height, depth)));
  EXPECT(volume.ptr && volume.pitch >= width && volume.pitch % 256 == 0);
  EXPECT(volume.xsize == width && volume.ysize == height);
  OK(cudaMemset3D(volume, 1, make_cudaExtent(width, height, depth)));
  OK(cudaMemset3DAsync(volume, 2, make_cudaExtent(100, 5, 7), 0));
  std::vector<unsigned char> host(width * height * depth, 9);
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(host.data(), width, width, height);
  box.dstPtr = volume;
  box.dstPos = make_cudaPos(200, 10, 20);
  box.extent = make_cudaExtent(50, 6, 4);
  box.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&box));
  box = {};
  box.srcPtr = volume;
  box.dstPtr = other;
  box.extent = make_cudaExtent(width, height, depth);
  box.kind = cudaMemcpyDeviceToDevice;
  OK(cudaMemcpy3DAsync(&box, 0));
  box.srcPtr = other;
  box.dstPtr = make_cudaPitchedPtr(host.data(), width, width, height);
  box.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3D(&box));
  for (size_t i = 0; i < host.size(); i++) {
    size_t x = i % width, y = i / width % height, z = i / width / height;
    bool low = x < 100 && y < 5 && z < 7;
    bool copied = x >= 200 && x < 250 && y >= 10 && y < 16 && z >= 20 && z < 24;
    EXPECT(host[i] == (copied ? 9 : low ? 2 : 1));
  }
  IS(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
  IS(cudaMalloc3D(nullptr, make_cudaExtent(1, 1, 1)), cudaErrorInvalidValue);
  IS(cudaMalloc3D(&other, make_cudaExtent(1 << 20, 1 << 20, 1 << 20)), cudaErrorMemoryAllocation);
  cudaGetLastError();
  OK(cudaFree(volume.ptr));
}

// Devices as the program sees them.
static void devices() {
  int count = 0, device = -1;
  OK(cudaGetDeviceCount(&count));
  EXPECT(count >= 1);
  OK(cudaGetDevice(&device));
  EXPECT(device == 0);
  OK(cudaSetDevice(count - 1));
  OK(cudaGetDevice(&device));
  EXPECT(device == count - 1);
  IS(cudaSetDevice(count), cudaErrorInvalidDevice);
  IS(cudaSetDevice(-1), cudaErrorInvalidDevice);
  OK(cudaGetDevice(&device));
  EXPECT(device == count - 1);
  cudaGetLastError();
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(properties.totalGlobalMem > 0);
  make(boxes[0], 100);
  OK(cudaMemset(boxes[0].pointer, 4, 100));
  check(boxes[0], 4);
}

// Streams and events tie the process to a GPU; all goes on there.
static void streams() {
  cudaStream_t stream;
  cudaEvent_t start, end;
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  make(boxes[0], 1 << 20);
  OK(cudaMemsetAsync(boxes[0].pointer, 1, boxes[0].bytes, stream));
  OK(cudaEventRecord(start, stream));
  add<<<unsigned(boxes[0].bytes / 128), 128, 0, stream>>>(boxes[0].pointer, boxes[0].bytes, 4);
  OK(cudaGetLastError());
  OK(cudaEventRecord(end, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamQuery(stream));
  float milliseconds = -1;
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0);
  check(boxes[0], 5);
  void *pinned = nullptr;
  OK(cudaMallocHost(&pinned, 4096));
  OK(cudaMemcpyAsync(pinned, boxes[0].pointer, 4096, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(static_cast<unsigned char *>(pinned)[4095] == 5);
  OK(cudaFreeHost(pinned));
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(end));
  OK(cudaStreamDestroy(stream));
}

// Device variables, written before anything is bound.
static void symbols() {
  int value = 5;
  OK(cudaMemcpyToSymbol(factor, &value, sizeof value));
  value = 1000;
  make(boxes[0], 64 * sizeof(int));
  int host[64];
  for (int i = 0; i < 64; i++)
    host[i] = i;
  OK(cudaMemcpy(boxes[0].pointer, host, sizeof host, cudaMemcpyHostToDevice));
  scale<<<2, 32>>>(reinterpret_cast<int *>(boxes[0].pointer), 64);
  OK(cudaGetLastError());
  OK(cudaMemcpy(host, boxes[0].pointer, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++)
    EXPECT(host[i] == 5 * i);
  OK(cudaMemcpyFromSymbol(&value, factor, sizeof value));
  EXPECT(value == 5);
}

// mgb: what cudaMemGetInfo promises can be had and used, to the last granule.
static void information() {
  size_t free = 0, total = 0, later = 0;
  make(boxes[0], 5 << 20);
  // The first launch loads the module, whose variables take memory too.
  OK(cudaMemset(boxes[0].pointer, 6, boxes[0].bytes));
  run(boxes[0], 1);
  OK(cudaDeviceSynchronize());
  OK(cudaMemGetInfo(&free, &total));
  EXPECT(free > 0 && free <= total - (5 << 20));
  make(boxes[1], free);
  OK(cudaMemset(boxes[1].pointer, 6, free));
  run(boxes[1], 1);
  OK(cudaDeviceSynchronize());
  unsigned char last = 0;
  OK(cudaMemcpy(&last, boxes[1].pointer + free - 1, 1, cudaMemcpyDeviceToHost));
  EXPECT(last == 7);
  OK(cudaMemGetInfo(&later, &total));
  EXPECT(later < (8 << 20));
  void *more = nullptr;
  IS(cudaMalloc(&more, free), cudaErrorMemoryAllocation);
  OK(cudaFree(boxes[1].pointer));
  OK(cudaMemGetInfo(&later, &total));
  EXPECT(later == free);
}

// After a reset the process begins anew.
static void reset() {
  make(boxes[0], 3 << 20);
  OK(cudaMemset(boxes[0].pointer, 1, boxes[0].bytes));
  run(boxes[0], 1);
  OK(cudaDeviceReset());
  IS(cudaFree(boxes[0].pointer), cudaErrorInvalidValue);
  cudaGetLastError();
  make(boxes[1], 1 << 20);
  OK(cudaMemset(boxes[1].pointer, 2, boxes[1].bytes));
  run(boxes[1], 1);
  check(boxes[1], 3);
  OK(cudaFree(boxes[1].pointer));
  OK(cudaDeviceReset());
}

static int in_child(void (*what)()) {
  pid_t child = fork();
  if (child == 0) {
    what();
    exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

// Children forked before the parent uses CUDA are processes like others; after that CUDA fails in them.
static void forks() {
  EXPECT(in_child(recorded) == 0);
  EXPECT(in_child(copies) == 0);
  recorded();
  EXPECT(in_child([] {
           void *pointer = nullptr;
           IS(cudaMalloc(&pointer, 16), cudaErrorInitializationError);
         }) == 0);
  check(boxes[1], 3);
}

// Hundreds of small objects, freed in any order, share granules and keep their bytes.
static void small_objects() {
  std::vector<Box> all(3000);
  for (size_t i = 0; i < all.size(); i++) {
    make(all[i], 1 + i % 1500);
    OK(cudaMemset(all[i].pointer, int(i), all[i].bytes));
  }
  run(all[0], 0);
  for (size_t i = 0; i < all.size(); i += 3)
    OK(cudaFree(all[i].pointer));
  for (size_t i = 0; i < all.size(); i += 3) {
    make(all[i], 700);
    OK(cudaMemset(all[i].pointer, int(i), 700));
  }
  for (size_t i = 0; i < all.size(); i += 7)
    check(all[i], int(i));
  for (Box &box : all)
    OK(cudaFree(box.pointer));
  size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  make(boxes[0], free);
  OK(cudaFree(boxes[0].pointer));
}

// Memory that static objects free after main, which ends on another thread.
struct Late {
  Box box;
  Late() {
    make(box, 3 << 20);
    run(box, 1);
  }
  ~Late() {
    cudaError_t code = cudaFree(box.pointer);
    if (code != cudaSuccess && code != cudaErrorCudartUnloading)
      _exit(3);
  }
};

static void ends() {
  static Late first, second;
  printf("ends: PASS\n");
  std::thread([] { exit(0); }).join();
}

// mgb, with MGB_GUARD=1: a kernel that runs past an object faults, however small that is.
static void overruns() {
  for (size_t i = 0; i < 4; i++) {
    make(boxes[i], 100 + i * 1000000);
    run(boxes[i], 1);
  }
  OK(cudaDeviceSynchronize());
  Box past = boxes[1];
  past.bytes += 512;
  run(past, 1);
  IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

// A kernel that reads a row before its first array, as natively other memory lies there.
__global__ void rows(const volatile unsigned char *bytes, ptrdiff_t row, unsigned char *sums) {
  ptrdiff_t i = ptrdiff_t(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned char above = bytes[i - row];
  sums[i] = bytes[i] + (i < row ? 0 : above);
}

// mgb: software GPUs have nothing there.
static void before() {
  for (int round = 0; round < 2; round++) {
    make(boxes[0], 4 << 20);
    make(boxes[1], 4 << 20);
    OK(cudaMemset(boxes[0].pointer, 2, boxes[0].bytes));
    rows<<<unsigned(boxes[0].bytes / 128), 128>>>(boxes[0].pointer, 49152, boxes[1].pointer);
    OK(cudaDeviceSynchronize());
    check(boxes[1], 2, 0, 49152);
    check(boxes[1], 4, 49152);
    OK(cudaFree(boxes[0].pointer));
    OK(cudaFree(boxes[1].pointer));
  }
}

// mgb: all that cudaMemGetInfo says, by several programs that ask at the same time. Who is too late waits.
static void greedy() {
  size_t free = 0, total = 0;
  make(boxes[1], 100);
  run(boxes[1], 1);
  OK(cudaDeviceSynchronize());
  // On a busy machine another may have all of it by now.
  for (int look = 0; look < 300 && free == 0; look++) {
    OK(cudaMemGetInfo(&free, &total));
    usleep(100000);
  }
  EXPECT(free > 0);
  make(boxes[0], free);
  OK(cudaMemset(boxes[0].pointer, 6, boxes[0].bytes));
  run(boxes[0], 1);
  usleep(100000);
  check(boxes[0], 7);
  OK(cudaFree(boxes[0].pointer));
}

// Whether the software GPU's driver is initialised: it has mapped what processes share by then.
static bool driver_is_ready() {
  FILE *maps = fopen("/proc/self/maps", "r");
  EXPECT(maps != nullptr);
  char line[512];
  bool found = false;
  while (fgets(line, sizeof line, maps) != nullptr)
    found = found || strstr(line, "softgpu.state") != nullptr;
  fclose(maps);
  return found;
}

// mgb: who only allocates, and then reads its input or waits, leaves the driver alone, which serves one process after another.
static void unhurried() {
  OK(cudaSetDevice(0));
  make(boxes[0], 3 << 20);
  make(boxes[1], 100);
  OK(cudaMemset(boxes[1].pointer, 5, 100));
  unsigned char *place = boxes[0].pointer;
  EXPECT(!driver_is_ready());
  OK(cudaMemset(boxes[0].pointer, 2, boxes[0].bytes));
  run(boxes[0], 1);
  check(boxes[0], 3);
  EXPECT(driver_is_ready());
  OK(cudaFree(boxes[0].pointer));
  make(boxes[0], 3 << 20);
  EXPECT(boxes[0].pointer == place);
  run(boxes[1], 1);
  check(boxes[1], 6);
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(addresses), CASE(recorded), CASE(copies), CASE(devices), CASE(streams), CASE(symbols),
      CASE(information), CASE(reset), CASE(forks), CASE(small_objects), CASE(volumes), CASE(ends),
      CASE(overruns), CASE(before), CASE(greedy), CASE(unhurried),
  };
  return play(argc, argv, cases);
}
