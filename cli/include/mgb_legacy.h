/* What CUDA 12 and 13 have dropped, by what they have instead: for sources that were written for CUDA 11 and before. The
   wrappers include it first where --mgb-legacy or MGB_LEGACY=1 asks for it.

   Functions are replaced by their successors. cudaDeviceProp and cudaPointerAttributes get back the members that they
   lost. Texture references become device variables that hold a texture object: `texture<...> name;` works where it is a
   variable of a namespace, also static or extern, not as a parameter or a member. Not to be had again:
   cudaLaunchCooperativeKernelMultiDevice, surface references, and cudaGetTextureReference. */
#ifndef MGB_LEGACY_H
#define MGB_LEGACY_H

/* For C and for files without device code, which include CUDA's headers by themselves. */
#define cudaThreadSynchronize cudaDeviceSynchronize
#define cudaThreadExit cudaDeviceReset
#define cudaThreadSetLimit cudaDeviceSetLimit
#define cudaThreadGetLimit cudaDeviceGetLimit
#define cudaThreadSetCacheConfig cudaDeviceSetCacheConfig
#define cudaThreadGetCacheConfig cudaDeviceGetCacheConfig
#endif

/* The rest needs CUDA's headers: in files without device code it comes with those that they include (legacy/). */
#if defined(__cplusplus) && (defined(__CUDACC__) || defined(MGB_LEGACY_RUNTIME)) && !defined(MGB_LEGACY_MEMBERS)
#define MGB_LEGACY_MEMBERS
#include <cuda_runtime.h>
#include <limits.h>

#if CUDART_VERSION >= 12000

/* Members. Where a structure was made by anything but these functions, they are zero. */

struct mgb_legacy_device_prop : cudaDeviceProp {
#if CUDART_VERSION >= 13000
  int clockRate, memoryClockRate, deviceOverlap, kernelExecTimeoutEnabled, computeMode;
  int singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch, maxTexture1DLinear;
#endif
};

static inline __host__ cudaError_t cudaGetDeviceProperties(mgb_legacy_device_prop *prop, int device) {
  cudaError_t code = cudaGetDeviceProperties(static_cast<cudaDeviceProp *>(prop), device);
#if CUDART_VERSION >= 13000
  const struct {
    int *member;
    cudaDeviceAttr attribute;
  } members[] = {
      {&prop->clockRate, cudaDevAttrClockRate},
      {&prop->memoryClockRate, cudaDevAttrMemoryClockRate},
      {&prop->deviceOverlap, cudaDevAttrGpuOverlap},
      {&prop->kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout},
      {&prop->computeMode, cudaDevAttrComputeMode},
      {&prop->singleToDoublePrecisionPerfRatio, cudaDevAttrSingleToDoublePrecisionPerfRatio},
      {&prop->maxTexture1DLinear, cudaDevAttrMaxTexture1DLinearWidth},
  };
  for (const auto &one : members) {
    *one.member = 0;
    if (code == cudaSuccess)
      code = cudaDeviceGetAttribute(one.member, one.attribute, device);
  }
  prop->cooperativeMultiDeviceLaunch = 0;
#endif
  return code;
}
#define cudaDeviceProp mgb_legacy_device_prop

struct mgb_legacy_pointer_attributes : cudaPointerAttributes {
  cudaMemoryType memoryType;
  int isManaged;
};

/* As it was: ordinary host memory is an error. */
static inline __host__ cudaError_t cudaPointerGetAttributes(mgb_legacy_pointer_attributes *attributes,
                                                            const void *pointer) {
  cudaError_t code = cudaPointerGetAttributes(static_cast<cudaPointerAttributes *>(attributes), pointer);
  if (code != cudaSuccess)
    return code;
  attributes->isManaged = attributes->type == cudaMemoryTypeManaged;
  attributes->memoryType = attributes->isManaged ? cudaMemoryTypeDevice : attributes->type;
  return attributes->type == cudaMemoryTypeUnregistered ? cudaErrorInvalidValue : cudaSuccess;
}
#define cudaPointerAttributes mgb_legacy_pointer_attributes

#endif
#if CUDART_VERSION >= 13000

/* Functions with another list of arguments. */

static inline __host__ cudaMemLocation mgb_legacy_location(int device) {
  cudaMemLocation location = {};
  location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

static inline __host__ cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, cudaMemoryAdvise advice,
                                                 int device) {
  return cudaMemAdvise(pointer, bytes, advice, mgb_legacy_location(device));
}

static inline __host__ cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device,
                                                        cudaStream_t stream = 0) {
  return cudaMemPrefetchAsync(pointer, bytes, mgb_legacy_location(device), 0, stream);
}

static inline __host__ cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                            const cudaGraphNode_t *to, size_t count) {
  return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}

static inline __host__ cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                               const cudaGraphNode_t *to, size_t count) {
  return cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}

static inline __host__ cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                                     size_t *count) {
  return cudaGraphGetEdges(graph, from, to, nullptr, count);
}

static inline __host__ cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *found,
                                                                size_t *count) {
  return cudaGraphNodeGetDependencies(node, found, nullptr, count);
}

static inline __host__ cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *found,
                                                                  size_t *count) {
  return cudaGraphNodeGetDependentNodes(node, found, nullptr, count);
}

static inline __host__ cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                                       cudaGraphNode_t *dependencies, size_t count,
                                                                       unsigned flags = 0) {
  return cudaStreamUpdateCaptureDependencies(stream, dependencies, nullptr, count, flags);
}

static inline __host__ cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                                               unsigned long long *id = nullptr,
                                                               cudaGraph_t *graph = nullptr,
                                                               const cudaGraphNode_t **dependencies = nullptr,
                                                               size_t *count = nullptr) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}

#endif
#if CUDART_VERSION >= 12000 && defined(__CUDACC__)

/* Texture references. The host's copy of the variable has the settings, the device's the object. What the declaration
   says of settings is in the device's copy alone: compilers do not initialise the host's, which is zero. */

template <class T> struct mgb_legacy_setting {
  T value;
  int is_set;
  constexpr __host__ __device__ mgb_legacy_setting(T value) : value(value), is_set(1) {}
  mgb_legacy_setting(const mgb_legacy_setting &) = default;
  mgb_legacy_setting &operator=(const mgb_legacy_setting &) = default;
  __host__ __device__ operator T() const { return value; }
};

template <class T, int Dimensions = cudaTextureType1D, cudaTextureReadMode Mode = cudaReadModeElementType>
struct mgb_legacy_texture {
  cudaTextureObject_t object;
  mgb_legacy_setting<int> normalized;
  mgb_legacy_setting<cudaTextureFilterMode> filterMode;
  mgb_legacy_setting<cudaTextureAddressMode> addressMode[3];
  cudaChannelFormatDesc channelDesc;
  int sRGB;
  constexpr __host__ __device__ mgb_legacy_texture(int normalized = 0,
                                                   cudaTextureFilterMode filter = cudaFilterModePoint,
                                                   cudaTextureAddressMode address = cudaAddressModeClamp)
      : object(0), normalized(normalized), filterMode(filter), addressMode{address, address, address}, channelDesc(),
        sRGB(0) {}
};

/* Takes from the declaration what the program has not set. */
template <class T>
static inline __host__ void mgb_legacy_default(mgb_legacy_setting<T> &own, const mgb_legacy_setting<T> &declared) {
  if (!own.is_set)
    own = declared;
}
template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t mgb_legacy_defaults(mgb_legacy_texture<T, D, M> &own,
                                                       const mgb_legacy_texture<T, D, M> &bound) {
  bool all = own.normalized.is_set && own.filterMode.is_set;
  for (int i = 0; i < 3; i++)
    all = all && own.addressMode[i].is_set;
  if (all)
    return cudaSuccess;
  mgb_legacy_texture<T, D, M> declared;
  cudaError_t code = cudaMemcpyFromSymbol(&declared, bound, sizeof declared);
  if (code != cudaSuccess)
    return code;
  mgb_legacy_default(own.normalized, declared.normalized);
  mgb_legacy_default(own.filterMode, declared.filterMode);
  for (int i = 0; i < 3; i++)
    mgb_legacy_default(own.addressMode[i], declared.addressMode[i]);
  return cudaSuccess;
}

/* What a fetch gives: the element, or floats of as many parts. */
template <class T, cudaTextureReadMode Mode> struct mgb_legacy_fetched {
  typedef T type;
};
#define MGB_LEGACY_FETCHED(element)                                            \
  template <> struct mgb_legacy_fetched<element, cudaReadModeNormalizedFloat> { \
    typedef float type;                                                        \
  };                                                                           \
  template <> struct mgb_legacy_fetched<element##1, cudaReadModeNormalizedFloat> { \
    typedef float1 type;                                                       \
  };                                                                           \
  template <> struct mgb_legacy_fetched<element##2, cudaReadModeNormalizedFloat> { \
    typedef float2 type;                                                       \
  };                                                                           \
  template <> struct mgb_legacy_fetched<element##4, cudaReadModeNormalizedFloat> { \
    typedef float4 type;                                                       \
  };
typedef unsigned char mgb_legacy_uchar;
typedef unsigned short mgb_legacy_ushort;
typedef uchar1 mgb_legacy_uchar1;
typedef uchar2 mgb_legacy_uchar2;
typedef uchar4 mgb_legacy_uchar4;
typedef ushort1 mgb_legacy_ushort1;
typedef ushort2 mgb_legacy_ushort2;
typedef ushort4 mgb_legacy_ushort4;
MGB_LEGACY_FETCHED(char)
MGB_LEGACY_FETCHED(short)
MGB_LEGACY_FETCHED(mgb_legacy_uchar)
MGB_LEGACY_FETCHED(mgb_legacy_ushort)
#undef MGB_LEGACY_FETCHED
template <> struct mgb_legacy_fetched<signed char, cudaReadModeNormalizedFloat> {
  typedef float type;
};

template <class T, int D, cudaTextureReadMode M>
static inline __device__ typename mgb_legacy_fetched<T, M>::type tex1Dfetch(const mgb_legacy_texture<T, D, M> &from,
                                                                            int at) {
  return tex1Dfetch<typename mgb_legacy_fetched<T, M>::type>(from.object, at);
}
template <class T, int D, cudaTextureReadMode M>
static inline __device__ typename mgb_legacy_fetched<T, M>::type tex1D(const mgb_legacy_texture<T, D, M> &from,
                                                                       float x) {
  return tex1D<typename mgb_legacy_fetched<T, M>::type>(from.object, x);
}
template <class T, int D, cudaTextureReadMode M>
static inline __device__ typename mgb_legacy_fetched<T, M>::type tex2D(const mgb_legacy_texture<T, D, M> &from, float x,
                                                                       float y) {
  return tex2D<typename mgb_legacy_fetched<T, M>::type>(from.object, x, y);
}
template <class T, int D, cudaTextureReadMode M>
static inline __device__ typename mgb_legacy_fetched<T, M>::type tex3D(const mgb_legacy_texture<T, D, M> &from, float x,
                                                                       float y, float z) {
  return tex3D<typename mgb_legacy_fetched<T, M>::type>(from.object, x, y, z);
}

/* Nothing is bound to it any more. Kernels that were launched with what was bound may still read it. */
template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaUnbindTexture(const mgb_legacy_texture<T, D, M> &bound) {
  mgb_legacy_texture<T, D, M> &texture_ = const_cast<mgb_legacy_texture<T, D, M> &>(bound);
  cudaTextureObject_t object = texture_.object;
  if (!object)
    return cudaSuccess;
  texture_.object = 0;
  cudaError_t code = cudaDeviceSynchronize();
  return code == cudaSuccess ? cudaDestroyTextureObject(object) : code;
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t mgb_legacy_bind(const mgb_legacy_texture<T, D, M> &bound,
                                                   const cudaResourceDesc &resource) {
  mgb_legacy_texture<T, D, M> &texture_ = const_cast<mgb_legacy_texture<T, D, M> &>(bound);
  cudaError_t code = mgb_legacy_defaults(texture_, bound);
  if (code != cudaSuccess)
    return code;
  cudaTextureDesc description = {};
  for (int i = 0; i < 3; i++)
    description.addressMode[i] = texture_.addressMode[i];
  description.filterMode = texture_.filterMode;
  description.readMode = M;
  description.normalizedCoords = texture_.normalized;
  description.sRGB = texture_.sRGB;
  code = cudaUnbindTexture(texture_);
  if (code == cudaSuccess)
    code = cudaCreateTextureObject(&texture_.object, &resource, &description, nullptr);
  if (code != cudaSuccess)
    return code;
  return cudaMemcpyToSymbol(bound, &texture_.object, sizeof texture_.object);
}

/* Where a texture may begin below an address; what is between is the offset that the program takes care of. */
static inline __host__ size_t mgb_legacy_offset(const void *pointer) {
  int device = 0, alignment = 512;
  if (cudaGetDevice(&device) == cudaSuccess)
    cudaDeviceGetAttribute(&alignment, cudaDevAttrTextureAlignment, device);
  return reinterpret_cast<size_t>(pointer) % (alignment > 0 ? alignment : 512);
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTexture(size_t *offset, const mgb_legacy_texture<T, D, M> &bound,
                                                   const void *pointer, const cudaChannelFormatDesc &format,
                                                   size_t bytes = UINT_MAX) {
  size_t before = mgb_legacy_offset(pointer);
  if (before && !offset)
    return cudaErrorInvalidValue;
  if (offset)
    *offset = before;
  if (bytes == UINT_MAX) {
    /* As much as there may be. */
    int device = 0, most = 0;
    cudaError_t code = cudaGetDevice(&device);
    if (code == cudaSuccess)
      code = cudaDeviceGetAttribute(&most, cudaDevAttrMaxTexture1DLinearWidth, device);
    if (code != cudaSuccess)
      return code;
    bytes = static_cast<size_t>(most) * sizeof(T) - before;
  }
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = const_cast<char *>(static_cast<const char *>(pointer)) - before;
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = bytes + before;
  return mgb_legacy_bind(bound, resource);
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTexture(size_t *offset, const mgb_legacy_texture<T, D, M> &bound,
                                                   const void *pointer, size_t bytes = UINT_MAX) {
  return cudaBindTexture(offset, bound, pointer, cudaCreateChannelDesc<T>(), bytes);
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTexture2D(size_t *offset, const mgb_legacy_texture<T, D, M> &bound,
                                                     const void *pointer, const cudaChannelFormatDesc &format,
                                                     size_t width, size_t height, size_t pitch) {
  size_t before = mgb_legacy_offset(pointer);
  if (before && !offset)
    return cudaErrorInvalidValue;
  if (offset)
    *offset = before;
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = const_cast<char *>(static_cast<const char *>(pointer)) - before;
  resource.res.pitch2D.desc = format;
  resource.res.pitch2D.width = width + before / sizeof(T);
  resource.res.pitch2D.height = height;
  resource.res.pitch2D.pitchInBytes = pitch;
  return mgb_legacy_bind(bound, resource);
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTexture2D(size_t *offset, const mgb_legacy_texture<T, D, M> &bound,
                                                     const void *pointer, size_t width, size_t height, size_t pitch) {
  return cudaBindTexture2D(offset, bound, pointer, cudaCreateChannelDesc<T>(), width, height, pitch);
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTextureToArray(const mgb_legacy_texture<T, D, M> &bound,
                                                          cudaArray_const_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = const_cast<cudaArray_t>(array);
  return mgb_legacy_bind(bound, resource);
}

template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTextureToArray(const mgb_legacy_texture<T, D, M> &bound,
                                                          cudaArray_const_t array, const cudaChannelFormatDesc &) {
  return cudaBindTextureToArray(bound, array);
}

/* The forms of C, by addresses. */
template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaUnbindTexture(const mgb_legacy_texture<T, D, M> *bound) {
  return cudaUnbindTexture(*bound);
}
template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTexture(size_t *offset, const mgb_legacy_texture<T, D, M> *bound,
                                                   const void *pointer, const cudaChannelFormatDesc *format,
                                                   size_t bytes = UINT_MAX) {
  return cudaBindTexture(offset, *bound, pointer, *format, bytes);
}
template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTexture2D(size_t *offset, const mgb_legacy_texture<T, D, M> *bound,
                                                     const void *pointer, const cudaChannelFormatDesc *format,
                                                     size_t width, size_t height, size_t pitch) {
  return cudaBindTexture2D(offset, *bound, pointer, *format, width, height, pitch);
}
template <class T, int D, cudaTextureReadMode M>
static inline __host__ cudaError_t cudaBindTextureToArray(const mgb_legacy_texture<T, D, M> *bound,
                                                          cudaArray_const_t array, const cudaChannelFormatDesc *) {
  return cudaBindTextureToArray(*bound, array);
}

#define texture __device__ mgb_legacy_texture

/* nvcc warns where a program sets the filter of such a variable, which it does for the host's copy. */
#ifdef __NVCC__
#pragma nv_diag_suppress 20092
#endif

#endif
#endif
