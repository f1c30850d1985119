// The runtime's memory functions: what they return, and the bytes they move.
#include "conformance.h"

using conformance::check;

// A recorded code; the error is taken back, so that it is not found by the next.
static void code(conformance::Record &record, cudaError_t error) {
  put(record, int(error));
  cudaGetLastError();
}
static void sum_of(conformance::Record &record, const std::vector<unsigned char> &bytes) {
  uint64_t sum = 1469598103934665603ull;
  for (unsigned char byte : bytes)
    sum = (sum ^ byte) * 1099511628211ull;
  put(record, sum);
}
static std::vector<unsigned char> pattern(size_t n, unsigned seed = 0) {
  std::vector<unsigned char> bytes(n);
  for (size_t i = 0; i < n; i++)
    bytes[i] = (unsigned char)any32(unsigned(i) + seed);
  return bytes;
}
static std::vector<unsigned char> read_back(const void *device, size_t n) {
  std::vector<unsigned char> bytes(n);
  check("cudaMemcpy", cudaMemcpy(bytes.data(), device, n, cudaMemcpyDeviceToHost));
  return bytes;
}
template <class T = unsigned char> static T *device_bytes(size_t n) {
  T *pointer;
  check("cudaMalloc", cudaMalloc(&pointer, n));
  check("cudaMemset", cudaMemset(pointer, 0, n));
  return pointer;
}

HOST_CASE(malloc_codes) {
  void *pointer = &record;
  code(record, cudaMalloc(&pointer, 0));
  put(record, int(pointer == nullptr));
  code(record, cudaMalloc(nullptr, 10));
  code(record, cudaMalloc(&pointer, size_t(1) << 60));
  code(record, cudaFree(nullptr));
  code(record, cudaMalloc(&pointer, 1));
  put(record, int(reinterpret_cast<uintptr_t>(pointer) % 256));
  code(record, cudaFree(pointer));
  code(record, cudaFree(&record));
}
HOST_CASE(copy_codes) {
  unsigned char *device = device_bytes(100), host[100] = {};
  code(record, cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
  code(record, cudaMemcpy(device, nullptr, 10, cudaMemcpyHostToDevice));
  code(record, cudaMemcpy(device, host, 10, cudaMemcpyKind(17)));
  code(record, cudaMemcpy(device, host, 100, cudaMemcpyDefault));
  code(record, cudaMemset(nullptr, 0, 10));
  code(record, cudaMemset(device, 0, 0));
}
HOST_CASE(copies_there_and_back) {
  auto bytes = pattern(100001);
  unsigned char *one = device_bytes(100001), *two = device_bytes(100001);
  check("to", cudaMemcpy(one, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  check("across", cudaMemcpy(two + 5, one, bytes.size() - 5, cudaMemcpyDeviceToDevice));
  sum_of(record, read_back(two, bytes.size()));
}
HOST_CASE(overlapping_set) {
  unsigned char *device = device_bytes(1000);
  check("set", cudaMemset(device + 3, 0xab, 500));
  check("set", cudaMemset(device + 250, 0x11c, 100));
  sum_of(record, read_back(device, 1000));
}
HOST_CASE(copy_2d) {
  auto bytes = pattern(64 * 48);
  unsigned char *device;
  size_t pitch;
  check("pitch", cudaMallocPitch(reinterpret_cast<void **>(&device), &pitch, 50, 40));
  put(record, int(pitch >= 50 && pitch % 16 == 0));
  check("set", cudaMemset2D(device, pitch, 7, 50, 40));
  check("to", cudaMemcpy2D(device + 2, pitch, bytes.data(), 64, 33, 30, cudaMemcpyHostToDevice));
  std::vector<unsigned char> back(50 * 40);
  check("from", cudaMemcpy2D(back.data(), 50, device, pitch, 50, 40, cudaMemcpyDeviceToHost));
  sum_of(record, back);
  code(record, cudaMemcpy2D(back.data(), 10, device, pitch, 50, 40, cudaMemcpyDeviceToHost));
}
HOST_CASE(pitches_that_are_too_small) {
  unsigned char *to = device_bytes(1000), *from = device_bytes(1000);
  for (size_t height = 0; height < 3; height++) {
    code(record, cudaMemcpy2D(to, 10, from, 40, 20, height, cudaMemcpyDeviceToDevice));
    code(record, cudaMemcpy2D(to, 40, from, 10, 20, height, cudaMemcpyDeviceToDevice));
    code(record, cudaMemset2D(to, 10, 0, 20, height));
    cudaMemcpy3DParms box = {};
    box.srcPtr = make_cudaPitchedPtr(from, 40, 40, height);
    box.dstPtr = make_cudaPitchedPtr(to, 10, 10, height);
    box.extent = make_cudaExtent(20, height, 1);
    box.kind = cudaMemcpyDeviceToDevice;
    code(record, cudaMemcpy3D(&box));
    code(record, cudaMemset3D(box.dstPtr, 0, box.extent));
  }
}
HOST_CASE(copy_3d) {
  cudaPitchedPtr device;
  cudaExtent extent = make_cudaExtent(40, 20, 10);
  check("malloc", cudaMalloc3D(&device, extent));
  check("set", cudaMemset3D(device, 3, extent));
  auto bytes = pattern(30 * 15 * 8);
  cudaMemcpy3DParms to = {};
  to.srcPtr = make_cudaPitchedPtr(bytes.data(), 30, 30, 15);
  to.dstPtr = device;
  to.dstPos = make_cudaPos(4, 2, 1);
  to.extent = make_cudaExtent(25, 12, 7);
  to.kind = cudaMemcpyHostToDevice;
  check("to", cudaMemcpy3D(&to));
  std::vector<unsigned char> back(40 * 20 * 10);
  cudaMemcpy3DParms from = {};
  from.srcPtr = device;
  from.dstPtr = make_cudaPitchedPtr(back.data(), 40, 40, 20);
  from.extent = extent;
  from.kind = cudaMemcpyDeviceToHost;
  check("from", cudaMemcpy3D(&from));
  sum_of(record, back);
}
HOST_CASE(arrays) {
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
  put(record, format.x), put(record, format.y), put(record, int(format.f));
  check("array", cudaMallocArray(&array, &format, 32, 16));
  auto bytes = pattern(32 * 16 * 4);
  check("to", cudaMemcpy2DToArray(array, 0, 0, bytes.data(), 128, 128, 16, cudaMemcpyHostToDevice));
  std::vector<unsigned char> back(64 * 10);
  check("from", cudaMemcpy2DFromArray(back.data(), 64, array, 12, 3, 64, 10, cudaMemcpyDeviceToHost));
  sum_of(record, back);
  cudaExtent extent;
  unsigned flags;
  check("info", cudaArrayGetInfo(&format, &extent, &flags, array));
  put(record, extent.width), put(record, extent.height), put(record, extent.depth), put(record, flags);
  code(record, cudaFreeArray(array));
}

__constant__ unsigned char constant_bytes[64];
__device__ unsigned char device_symbol[64];
__global__ void from_constant(unsigned char *out) { out[threadIdx.x] = constant_bytes[threadIdx.x] + device_symbol[63 - threadIdx.x]; }
HOST_CASE(symbols) {
  auto bytes = pattern(64);
  check("to", cudaMemcpyToSymbol(constant_bytes, bytes.data(), 40, 10));
  check("to", cudaMemcpyToSymbol(device_symbol, bytes.data(), 64));
  unsigned char *device = device_bytes(64);
  from_constant<<<1, 64>>>(device);
  sum_of(record, read_back(device, 64));
  std::vector<unsigned char> back(30);
  check("from", cudaMemcpyFromSymbol(back.data(), device_symbol, 30, 7));
  sum_of(record, back);
  size_t size;
  void *address;
  check("size", cudaGetSymbolSize(&size, constant_bytes));
  put(record, size);
  check("address", cudaGetSymbolAddress(&address, device_symbol));
  sum_of(record, read_back(address, 64));
  code(record, cudaMemcpyToSymbol(device_symbol, bytes.data(), 64, 1));
}

HOST_CASE(pinned_memory) {
  unsigned char *pinned, *device = device_bytes(1000);
  check("host", cudaMallocHost(reinterpret_cast<void **>(&pinned), 1000));
  memcpy(pinned, pattern(1000).data(), 1000);
  check("to", cudaMemcpyAsync(device, pinned, 1000, cudaMemcpyHostToDevice, nullptr));
  check("wait", cudaDeviceSynchronize());
  sum_of(record, read_back(device, 1000));
  code(record, cudaFreeHost(pinned));
  code(record, cudaFreeHost(&record));
}
__global__ void add_one(unsigned char *bytes) { bytes[threadIdx.x] += 1; }
HOST_CASE(mapped_memory) {
  unsigned char *host, *seen;
  check("host", cudaHostAlloc(reinterpret_cast<void **>(&host), 64, cudaHostAllocMapped));
  memcpy(host, pattern(64).data(), 64);
  check("pointer", cudaHostGetDevicePointer(reinterpret_cast<void **>(&seen), host, 0));
  add_one<<<1, 64>>>(seen);
  check("wait", cudaDeviceSynchronize());
  sum_of(record, std::vector<unsigned char>(host, host + 64));
  unsigned flags;
  check("flags", cudaHostGetFlags(&flags, host));
  put(record, flags & cudaHostAllocMapped);
}
HOST_CASE(registered_memory) {
  std::vector<unsigned char> bytes = pattern(8192);
  code(record, cudaHostRegister(bytes.data(), bytes.size(), cudaHostRegisterDefault));
  unsigned char *device = device_bytes(8192);
  check("to", cudaMemcpyAsync(device, bytes.data(), 8192, cudaMemcpyHostToDevice, nullptr));
  check("wait", cudaDeviceSynchronize());
  sum_of(record, read_back(device, 8192));
  code(record, cudaHostUnregister(bytes.data()));
  code(record, cudaHostUnregister(bytes.data()));
}
HOST_CASE(managed_memory) {
  unsigned char *both;
  check("managed", cudaMallocManaged(&both, 64));
  memcpy(both, pattern(64).data(), 64);
  add_one<<<1, 64>>>(both);
  check("wait", cudaDeviceSynchronize());
  sum_of(record, std::vector<unsigned char>(both, both + 64));
  cudaPointerAttributes attributes;
  check("attributes", cudaPointerGetAttributes(&attributes, both));
  put(record, int(attributes.type));
  code(record, cudaFree(both));
}
HOST_CASE(pointer_attributes) {
  unsigned char *device = device_bytes(100), *pinned, plain;
  check("host", cudaMallocHost(reinterpret_cast<void **>(&pinned), 100));
  for (void *pointer : {static_cast<void *>(device + 50), static_cast<void *>(pinned + 3), static_cast<void *>(&plain)}) {
    cudaPointerAttributes attributes;
    code(record, cudaPointerGetAttributes(&attributes, pointer));
    put(record, int(attributes.type)), put(record, attributes.device);
    put(record, int(attributes.devicePointer == pointer)), put(record, int(attributes.hostPointer == pointer));
  }
}
HOST_CASE(async_allocation) {
  cudaStream_t stream;
  check("stream", cudaStreamCreate(&stream));
  unsigned char *device;
  check("malloc", cudaMallocAsync(&device, 5000, stream));
  check("set", cudaMemsetAsync(device, 9, 5000, stream));
  auto bytes = pattern(2000);
  check("to", cudaMemcpyAsync(device + 100, bytes.data(), 2000, cudaMemcpyHostToDevice, stream));
  std::vector<unsigned char> back(5000);
  check("from", cudaMemcpyAsync(back.data(), device, 5000, cudaMemcpyDeviceToHost, stream));
  check("free", cudaFreeAsync(device, stream));
  check("wait", cudaStreamSynchronize(stream));
  sum_of(record, back);
  code(record, cudaFreeAsync(nullptr, stream));
}
HOST_CASE(memory_pools) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool, current;
  check("create", cudaMemPoolCreate(&pool, &properties));
  uint64_t threshold = 1 << 20, back = 0;
  check("set", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  check("get", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &back));
  put(record, back);
  void *pointer;
  check("malloc", cudaMallocFromPoolAsync(&pointer, 100000, pool, nullptr));
  check("wait", cudaDeviceSynchronize());
  check("get", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &back));
  put(record, int(back >= 100000));
  check("free", cudaFreeAsync(pointer, nullptr));
  check("wait", cudaDeviceSynchronize());
  check("get", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &back));
  put(record, back);
  check("trim", cudaMemPoolTrimTo(pool, 0));
  check("set", cudaDeviceSetMemPool(0, pool));
  check("get", cudaDeviceGetMemPool(&current, 0));
  put(record, int(current == pool));
  code(record, cudaMemPoolDestroy(pool));
}
HOST_CASE(memory_info) {
  size_t before, after, total;
  void *pointer;
  check("info", cudaMemGetInfo(&before, &total));
  put(record, int(before <= total));
  check("malloc", cudaMalloc(&pointer, 32 << 20));
  check("info", cudaMemGetInfo(&after, &total));
  // Other processes come and go: what is left now is not what was left before, less this.
  put(record, int(after + (32 << 20) <= total));
  check("free", cudaFree(pointer));
}
