// Programs that call the driver API by themselves, beside the runtime. One case per argument; every case also holds
// natively, but that a program under MGB sees one device.

#include "check.h"
#include <cstdint>
#include <cuda.h>

#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)

__global__ void add(unsigned char *bytes, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    bytes[i] += value;
}

static const int COUNT = 4096;

static void expect(CUdeviceptr memory, int value) {
  unsigned char host[COUNT];
  DRIVER(cuMemcpyDtoH(host, memory, COUNT));
  for (unsigned char byte : host)
    EXPECT(byte == value);
}

// Device 0 is one GPU for both APIs; prints which, and how many there are. The environment is as it was.
static void place() {
  const char *set = getenv("CUDA_VISIBLE_DEVICES");
  char before[64] = "";
  if (set)
    strncpy(before, set, sizeof before - 1);
  int count = 0, runtime_count = 0, device = -1;
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGetCount(&count));
  OK(cudaGetDeviceCount(&runtime_count));
  EXPECT(count == runtime_count);
  CUdevice first;
  CUuuid uuid;
  DRIVER(cuDeviceGet(&first, 0));
  DRIVER(cuDeviceGetUuid(&uuid, first));
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(memcmp(&uuid, &properties.uuid, sizeof uuid) == 0);
  set = getenv("CUDA_VISIBLE_DEVICES");
  EXPECT(strcmp(before, set ? set : "") == 0);

  CUcontext context;
  DRIVER(cuDevicePrimaryCtxRetain(&context, first));
  DRIVER(cuCtxSetCurrent(context));
  CUdeviceptr memory;
  DRIVER(cuMemAlloc(&memory, COUNT));
  DRIVER(cuMemsetD8(memory, 5, COUNT));
  unsigned char *other;
  OK(cudaMalloc(&other, COUNT));
  OK(cudaMemcpy(other, (void *)memory, COUNT, cudaMemcpyDeviceToDevice));
  add<<<COUNT / 128, 128>>>(other, COUNT, 2);
  add<<<COUNT / 128, 128>>>((unsigned char *)memory, COUNT, 3);
  OK(cudaDeviceSynchronize());
  expect((CUdeviceptr)other, 7);
  expect(memory, 8);
  DRIVER(cuCtxGetDevice(&device));
  EXPECT(device == first);
  OK(cudaFree(other));
  DRIVER(cuMemFree(memory));
  printf("%d ", count);
  for (char byte : uuid.bytes)
    printf("%02x", (unsigned char)byte);
  printf("\n");
}

// A context is current where the runtime makes one current, and only there.
static void contexts() {
  CUdevice device;
  DRIVER(cuInit(0));
  EXPECT(cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT);
  int count = 0;
  OK(cudaGetDeviceCount(&count));
  EXPECT(cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT);
  OK(cudaSetDevice(0));
  DRIVER(cuCtxGetDevice(&device));
  EXPECT(device == 0);
  DRIVER(cuCtxSetCurrent(nullptr));
  OK(cudaSetDevice(0));
  DRIVER(cuCtxGetDevice(&device));
  OK(cudaDeviceReset());
  OK(cudaSetDevice(0));
  OK(cudaFree(0));
  DRIVER(cuCtxGetDevice(&device));
  unsigned char *memory;
  OK(cudaMalloc(&memory, COUNT));
  OK(cudaMemset(memory, 9, COUNT));
  expect((CUdeviceptr)memory, 9);
  OK(cudaFree(memory));
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(place), CASE(contexts),
  };
  return play(argc, argv, cases);
}
