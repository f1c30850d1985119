// What programs of textures share: texture objects of arrays and of memory.
#pragma once

#include "images.h"

struct Settings {
  cudaTextureAddressMode x = cudaAddressModeClamp, y = x, z = x;
  cudaTextureFilterMode filter = cudaFilterModePoint;
  bool normalized = false;
  cudaTextureReadMode read = cudaReadModeElementType;
};
static Settings all(cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized) {
  Settings settings;
  settings.x = settings.y = settings.z = mode;
  settings.filter = filter;
  settings.normalized = normalized;
  return settings;
}
static constexpr auto kPoint = cudaFilterModePoint, kLinear = cudaFilterModeLinear;
static constexpr float kBorder = 77;

static cudaTextureObject_t texture_of(const cudaResourceDesc &resource, const Settings &settings,
                                      const cudaResourceViewDesc *view = nullptr) {
  cudaTextureDesc description = {};
  description.addressMode[0] = settings.x;
  description.addressMode[1] = settings.y;
  description.addressMode[2] = settings.z;
  description.filterMode = settings.filter;
  description.readMode = settings.read;
  description.normalizedCoords = settings.normalized;
  for (float &part : description.borderColor)
    part = kBorder;
  cudaTextureObject_t object = 0;
  check("cudaCreateTextureObject", cudaCreateTextureObject(&object, &resource, &description, view));
  return object;
}

static cudaResourceDesc linear(const void *memory, const cudaChannelFormatDesc &format, size_t bytes) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = const_cast<void *>(memory);
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = bytes;
  return resource;
}
template <class T> static T *on_device(const Elements<T> &elements) {
  T *memory;
  check("cudaMalloc", cudaMalloc(&memory, elements.bytes()));
  check("cudaMemcpy", cudaMemcpy(memory, elements.all.data(), elements.bytes(), cudaMemcpyHostToDevice));
  return memory;
}
