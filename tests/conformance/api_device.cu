// Devices, launches, functions, limits and errors.
#include "conformance.h"

using conformance::check;

static void code(conformance::Record &record, cudaError_t error) {
  put(record, int(error));
  cudaGetLastError();
}
__global__ void nothing() {}
__global__ void __launch_bounds__(128) bounded(int *out) {
  if (out)
    *out = int(blockDim.x);
}
__global__ void with_shared(unsigned *out) {
  __shared__ unsigned words[500];
  words[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (out)
    out[threadIdx.x] = words[499 - threadIdx.x];
}

HOST_CASE(device_codes) {
  int count = 0, device = -1;
  code(record, cudaGetDeviceCount(&count));
  put(record, int(count >= 1));
  code(record, cudaGetDevice(&device));
  put(record, device);
  code(record, cudaSetDevice(count));
  code(record, cudaSetDevice(-1));
  code(record, cudaSetDevice(0));
  cudaDeviceProp properties;
  code(record, cudaGetDeviceProperties(&properties, count));
  code(record, cudaGetDeviceProperties(&properties, 0));
  put(record, properties.warpSize), put(record, properties.maxThreadsPerBlock);
  put(record, properties.maxThreadsDim[2]), put(record, properties.maxGridSize[1]);
  put(record, properties.unifiedAddressing), put(record, properties.canMapHostMemory);
}
HOST_CASE(device_attributes) {
  for (cudaDeviceAttr attribute :
       {cudaDevAttrMaxThreadsPerBlock, cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimZ, cudaDevAttrMaxGridDimX,
        cudaDevAttrMaxGridDimY, cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrTotalConstantMemory, cudaDevAttrWarpSize,
        cudaDevAttrMaxRegistersPerBlock, cudaDevAttrUnifiedAddressing, cudaDevAttrCooperativeLaunch,
        cudaDevAttrConcurrentKernels, cudaDevAttrMemoryPoolsSupported}) {
    int value = -1;
    code(record, cudaDeviceGetAttribute(&value, attribute, 0));
    put(record, value);
  }
  int value;
  code(record, cudaDeviceGetAttribute(&value, cudaDeviceAttr(100000), 0));
  code(record, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
}
HOST_CASE(peer_codes) {
  int can = 7;
  code(record, cudaDeviceCanAccessPeer(&can, 0, 0));
  put(record, can);
  code(record, cudaDeviceEnablePeerAccess(0, 0));
  code(record, cudaDeviceEnablePeerAccess(99, 0));
  code(record, cudaDeviceDisablePeerAccess(99));
}
HOST_CASE(launch_codes) {
  nothing<<<1, 2048>>>();
  code(record, cudaGetLastError());
  nothing<<<0, 32>>>();
  code(record, cudaGetLastError());
  nothing<<<1, 0>>>();
  code(record, cudaGetLastError());
  nothing<<<1, dim3(1, 1, 65)>>>();
  code(record, cudaGetLastError());
  nothing<<<dim3(1, 65536), 1>>>();
  code(record, cudaGetLastError());
  nothing<<<1, 32, 1 << 20>>>();
  code(record, cudaGetLastError());
  bounded<<<1, 256>>>(nullptr);
  code(record, cudaGetLastError());
  code(record, cudaLaunchKernel(reinterpret_cast<const void *>(&code), dim3(1), dim3(1), nullptr, 0, nullptr));
  nothing<<<1, 1024>>>();
  code(record, cudaGetLastError());
  code(record, cudaDeviceSynchronize());
}
HOST_CASE(last_error) {
  void *pointer;
  put(record, int(cudaMalloc(&pointer, size_t(1) << 60)));
  put(record, int(cudaPeekAtLastError()));
  put(record, int(cudaGetLastError()));
  put(record, int(cudaGetLastError()));
  put(record, int(cudaSetDevice(12345)));
  put(record, int(cudaMalloc(&pointer, 10)));
  put(record, int(cudaGetLastError()));
}
HOST_CASE(error_names) {
  for (int error : {0, 1, 2, 3, 11, 98, 100, 101, 400, 600, 700, 719, 801, 999, 123456})
    for (const char *at : {cudaGetErrorName(cudaError_t(error)), cudaGetErrorString(cudaError_t(error))})
      for (; *at; at++)
        put(record, *at);
}
HOST_CASE(function_attributes) {
  cudaFuncAttributes attributes;
  check("get", cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(with_shared)));
  put(record, attributes.sharedSizeBytes), put(record, attributes.maxThreadsPerBlock), put(record, attributes.constSizeBytes);
  check("get", cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(bounded)));
  put(record, attributes.maxThreadsPerBlock), put(record, attributes.maxDynamicSharedSizeBytes);
  const void *kernel = reinterpret_cast<const void *>(with_shared);
  code(record, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  check("get", cudaFuncGetAttributes(&attributes, kernel));
  put(record, attributes.maxDynamicSharedSizeBytes);
  code(record, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 10 << 20));
  code(record, cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(&code)));
}
HOST_CASE(occupancy) {
  int blocks = 0, best_grid = 0, best_block = 0;
  code(record, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
  put(record, blocks);
  code(record, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 100 << 10));
  put(record, blocks);
  code(record, cudaOccupancyMaxPotentialBlockSize(&best_grid, &best_block, nothing, 0, 0));
  put(record, best_block);
  code(record, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 0, 0));
}
HOST_CASE(limits) {
  size_t value;
  code(record, cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
  code(record, cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
  put(record, int(value >= (32 << 20)));
  code(record, cudaDeviceGetLimit(&value, cudaLimitStackSize));
  put(record, value);
  code(record, cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  code(record, cudaDeviceGetLimit(&value, cudaLimitStackSize));
  put(record, value);
  code(record, cudaDeviceGetLimit(&value, cudaLimit(77)));
}
HOST_CASE(versions) {
  int runtime, driver;
  check("runtime", cudaRuntimeGetVersion(&runtime));
  check("driver", cudaDriverGetVersion(&driver));
  put(record, runtime / 1000), put(record, int(driver >= runtime));
}
HOST_CASE(reset_frees_everything) {
  void *pointer;
  check("malloc", cudaMalloc(&pointer, 1000));
  code(record, cudaDeviceReset());
  code(record, cudaFree(pointer));
  check("malloc", cudaMalloc(&pointer, 1000));
  code(record, cudaMemset(pointer, 1, 1000));
  code(record, cudaDeviceSynchronize());
}
HOST_CASE(launch_with_attributes) {
  int *out;
  check("malloc", cudaMalloc(&out, 4));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1), config.blockDim = dim3(96);
  code(record, cudaLaunchKernelEx(&config, bounded, out));
  int seen = 0;
  check("from", cudaMemcpy(&seen, out, 4, cudaMemcpyDeviceToHost));
  put(record, seen);
}
