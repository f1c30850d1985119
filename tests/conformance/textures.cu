// Textures: address modes, filters, formats, and every function that reads one.
#include "textures.h"
#include <cmath>
#include <cuda_fp16.h>

// The model: CUDA's programming guide. Coordinates here are whole numbers of 16ths of a texel, and of 4ths in boxes, so
// that weights need no rounding.
static long texel(long index, long size, cudaTextureAddressMode mode, bool normalized) {
  if (!normalized && mode != cudaAddressModeBorder)
    mode = cudaAddressModeClamp;
  switch (mode) {
  case cudaAddressModeWrap:
    return (index % size + size) % size;
  case cudaAddressModeMirror: {
    long at = (index % (2 * size) + 2 * size) % (2 * size);
    return at < size ? at : 2 * size - 1 - at;
  }
  case cudaAddressModeClamp:
    return index < 0 ? 0 : index >= size ? size - 1 : index;
  default:
    return index < 0 || index >= size ? -1 : index;
  }
}
// What `at` reads of `dimensions` dimensions, in layer z where that is not among them.
template <class Of>
static double model(const Elements<float> &e, int dimensions, const float *at, const Settings &s, size_t z, Of of) {
  const long size[] = {long(e.extent.width), long(e.rows()), long(e.planes())};
  const cudaTextureAddressMode mode[] = {s.x, s.y, s.z};
  long low[3] = {0, 0, long(z)}, high[3] = {0, 0, long(z)};
  double weight[3] = {};
  for (int d = 0; d < dimensions; d++) {
    double x = at[d] * (s.normalized ? double(size[d]) : 1.0);
    if (s.filter == kLinear)
      x -= 0.5;
    low[d] = texel(long(floor(x)), size[d], mode[d], s.normalized);
    high[d] = texel(long(floor(x)) + 1, size[d], mode[d], s.normalized);
    weight[d] = s.filter == kLinear ? x - floor(x) : 0;
  }
  double sum = 0;
  for (int corner = 0; corner < 8; corner++) {
    double w = 1;
    long place[3];
    for (int d = 0; d < 3; d++) {
      bool up = corner >> d & 1;
      w *= up ? weight[d] : 1 - weight[d];
      place[d] = up ? high[d] : low[d];
    }
    bool outside = place[0] < 0 || place[1] < 0 || place[2] < 0;
    if (w != 0)
      sum += w * (outside ? double(kBorder) : double(of(place[0], place[1], place[2])));
  }
  return sum;
}
static std::vector<float> model(const Elements<float> &e, int dimensions, std::initializer_list<float> at,
                                const Settings &s, size_t layer = 0) {
  auto of = [&](size_t x, size_t y, size_t z) { return e.of(x, y, z); };
  return {float(model(e, dimensions, at.begin(), s, layer, of))};
}

// From two texels before the first one to two behind the last, and further.
__host__ __device__ static float spread(unsigned i, unsigned step, int size, bool normalized) {
  float at = (int(i * step % kReads) - 12) * ((size + 4) / 64.0f) + (i % 16) / 16.0f;
  at = floorf(at * 16) / 16 + (i == 63 ? 3 * size : 0);
  return normalized ? at / size : at;
}

// Lines. Sizes are powers of two, so that normalised coordinates are exact.
#define LINE(name, mode, filter, normalized)                                                                           \
  HOST_CASE(line_##name) {                                                                                             \
    auto elements = whole_numbers(16);                                                                                 \
    Settings settings = all(cudaAddressMode##mode, filter, normalized);                                                \
    auto object = texture_of(of_array(elements.array()), settings);                                                    \
    record_reads<float, float>(                                                                                        \
        record, [=] __device__(unsigned i) { return tex1D<float>(object, spread(i, 1, 16, normalized)); });            \
    expect_each<float>(record, [&](unsigned i) {                                                                       \
      return model(elements, 1, {spread(i, 1, 16, normalized)}, settings);                                             \
    });                                                                                                                \
  }
LINE(point_clamp, Clamp, kPoint, false)
LINE(point_border, Border, kPoint, false)
LINE(point_wrap_is_clamp, Wrap, kPoint, false)
LINE(point_mirror_is_clamp, Mirror, kPoint, false)
LINE(point_clamp_normalized, Clamp, kPoint, true)
LINE(point_border_normalized, Border, kPoint, true)
LINE(point_wrap, Wrap, kPoint, true)
LINE(point_mirror, Mirror, kPoint, true)
LINE(linear_clamp, Clamp, kLinear, false)
LINE(linear_border, Border, kLinear, false)
LINE(linear_wrap_is_clamp, Wrap, kLinear, false)
LINE(linear_clamp_normalized, Clamp, kLinear, true)
LINE(linear_border_normalized, Border, kLinear, true)
LINE(linear_wrap, Wrap, kLinear, true)
LINE(linear_mirror, Mirror, kLinear, true)

#define PLANE(name, mode_x, mode_y, filter, normalized)                                                                \
  HOST_CASE(plane_##name) {                                                                                            \
    auto elements = whole_numbers(16, 8);                                                                              \
    Settings settings = all(cudaAddressMode##mode_x, filter, normalized);                                              \
    settings.y = cudaAddressMode##mode_y;                                                                              \
    auto object = texture_of(of_array(elements.array()), settings);                                                    \
    record_reads<float, float>(record, [=] __device__(unsigned i) {                                                    \
      return tex2D<float>(object, spread(i, 1, 16, normalized), spread(i, 7, 8, normalized));                          \
    });                                                                                                                \
    expect_each<float>(record, [&](unsigned i) {                                                                       \
      return model(elements, 2, {spread(i, 1, 16, normalized), spread(i, 7, 8, normalized)}, settings);                \
    });                                                                                                                \
  }
PLANE(point_clamp, Clamp, Clamp, kPoint, false)
PLANE(point_wrap, Wrap, Wrap, kPoint, true)
PLANE(point_mirror_border, Mirror, Border, kPoint, true)
PLANE(linear_clamp, Clamp, Clamp, kLinear, false)
PLANE(linear_border, Border, Border, kLinear, false)
PLANE(linear_wrap, Wrap, Wrap, kLinear, true)
PLANE(linear_mirror, Mirror, Mirror, kLinear, true)
PLANE(linear_wrap_clamp, Wrap, Clamp, kLinear, true)

// 4ths of a texel.
__host__ __device__ static float coarse(unsigned i, unsigned step, int size, bool normalized) {
  float at = floorf(spread(i, step, size, false) * 4) / 4;
  return normalized ? at / size : at;
}
#define SOLID(name, mode, filter, normalized)                                                                          \
  HOST_CASE(box_##name) {                                                                                              \
    auto elements = whole_numbers(8, 4, 4);                                                                            \
    Settings settings = all(cudaAddressMode##mode, filter, normalized);                                                \
    auto object = texture_of(of_array(elements.array()), settings);                                                    \
    record_reads<float, float>(record, [=] __device__(unsigned i) {                                                    \
      return tex3D<float>(object, coarse(i, 1, 8, normalized), coarse(i, 7, 4, normalized),                            \
                          coarse(i, 19, 4, normalized));                                                               \
    });                                                                                                                \
    expect_each<float>(record, [&](unsigned i) {                                                                       \
      return model(elements, 3,                                                                                        \
                   {coarse(i, 1, 8, normalized), coarse(i, 7, 4, normalized), coarse(i, 19, 4, normalized)},           \
                   settings);                                                                                          \
    });                                                                                                                \
  }
SOLID(point_clamp, Clamp, kPoint, false)
SOLID(point_wrap, Wrap, kPoint, true)
SOLID(linear_clamp, Clamp, kLinear, false)
SOLID(linear_border, Border, kLinear, true)
SOLID(linear_mirror, Mirror, kLinear, true)

// Between steps of a weight, and where products of weights have to be rounded.
HOST_CASE(weights_have_eight_bits) {
  auto elements = whole_numbers(16);
  auto object = texture_of(of_array(elements.array()), all(cudaAddressModeClamp, kLinear, false));
  record_reads<float, float>(record, [=] __device__(unsigned i) { return tex1D<float>(object, 3.5f + i / 1024.0f); });
  expect_each<float>(record, [&](unsigned i) {
    double weight = floor(i / 4.0 + 0.5) / 256;
    return std::vector<float>{float(elements.of(3) * (1 - weight) + elements.of(4) * weight)};
  });
}
HOST_CASE(products_of_weights_have_eight_bits) {
  auto elements = whole_numbers(2, 2);
  auto object = texture_of(of_array(elements.array()), all(cudaAddressModeClamp, kLinear, false));
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    return tex2D<float>(object, 0.5f + (i * 4 + 1) / 256.0f, 0.5f + (i * 37 % 256) / 256.0f);
  });
  expect_each<float>(record, [&](unsigned i) {
    int x = i * 4 + 1, y = i * 37 % 256, both = (x * y + 128) / 256;
    double sum = elements.of(0, 0) * double(256 - x - y + both) + elements.of(1, 0) * double(x - both) +
                 elements.of(0, 1) * double(y - both) + elements.of(1, 1) * double(both);
    return std::vector<float>{float(sum / 256)};
  });
}

// Layers and cubes.
HOST_CASE(layered_lines) {
  auto elements = whole_numbers(16, 0, 5);
  Settings settings = all(cudaAddressModeClamp, kLinear, false);
  auto object = texture_of(of_array(elements.array(cudaArrayLayered)), settings);
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    return tex1DLayered<float>(object, spread(i, 1, 16, false), i % 5);
  });
  expect_each<float>(
      record, [&](unsigned i) { return model(elements, 1, {spread(i, 1, 16, false)}, settings, i % 5); });
}
HOST_CASE(layered_planes) {
  auto elements = whole_numbers(16, 8, 3);
  Settings settings = all(cudaAddressModeWrap, kLinear, true);
  auto object = texture_of(of_array(elements.array(cudaArrayLayered)), settings);
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    return tex2DLayered<float>(object, spread(i, 1, 16, true), spread(i, 7, 8, true), i % 3);
  });
  expect_each<float>(record, [&](unsigned i) {
    return model(elements, 2, {spread(i, 1, 16, true), spread(i, 7, 8, true)}, settings, i % 3);
  });
}
// A direction to the middle of a texel of a cube of 4 by 4, by face.
__host__ __device__ static float3 direction(unsigned face, int s, int t) {
  float a = (s + 0.5f) / 2 - 1, b = (t + 0.5f) / 2 - 1;
  switch (face) {
  case 0:
    return make_float3(1, -b, -a);
  case 1:
    return make_float3(-1, -b, a);
  case 2:
    return make_float3(a, 1, b);
  case 3:
    return make_float3(a, -1, -b);
  case 4:
    return make_float3(a, -b, 1);
  default:
    return make_float3(-a, -b, -1);
  }
}
HOST_CASE(cubes) {
  auto elements = whole_numbers(4, 4, 6);
  Settings settings = all(cudaAddressModeWrap, kPoint, true);
  auto object = texture_of(of_array(elements.array(cudaArrayCubemap)), settings);
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    float3 d = direction(i % 6, i / 6 % 4, i % 4);
    return texCubemap<float>(object, d.x, d.y, d.z);
  });
  expect_each<float>(record, [&](unsigned i) {
    return std::vector<float>{elements.of(i / 6 % 4, i % 4, i % 6)};
  });
}
HOST_CASE(layered_cubes) {
  auto elements = whole_numbers(4, 4, 12);
  Settings settings = all(cudaAddressModeWrap, kPoint, true);
  auto object = texture_of(of_array(elements.array(cudaArrayCubemap | cudaArrayLayered)), settings);
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    float3 d = direction(i % 6, i / 6 % 4, i % 4);
    return texCubemapLayered<float>(object, 2 * d.x, 2 * d.y, 2 * d.z, i / 32);
  });
  expect_each<float>(record, [&](unsigned i) {
    return std::vector<float>{elements.of(i / 6 % 4, i % 4, i / 32 * 6 + i % 6)};
  });
}

// Formats: what each reads as, element by element.
typedef signed char schar;
#define FETCH(name, T, word, Packed, ...)                                                                              \
  HOST_CASE(fetch_##name) {                                                                                            \
    Elements<T> elements(60);                                                                                          \
    auto object = texture_of(linear(on_device(elements), cudaCreateChannelDesc<T>(), elements.bytes()), Settings());   \
    record_reads<word, Packed>(record, [=] __device__(unsigned i) {                                                    \
      T v = tex1Dfetch<T>(object, i);                                                                                  \
      return Packed{__VA_ARGS__};                                                                                      \
    });                                                                                                                \
    expect_each<word>(record, [&](unsigned i) {                                                                        \
      T v = {};                                                                                                        \
      if (i < 60)                                                                                                      \
        v = elements.of(i);                                                                                            \
      return std::vector<word>{__VA_ARGS__};                                                                           \
    });                                                                                                                \
  }
FETCH(char, schar, int, int1, int(v))
FETCH(uchar2, uchar2, unsigned, uint2, v.x, v.y)
FETCH(char4, char4, int, int4, v.x, v.y, v.z, v.w)
FETCH(ushort, ushort, unsigned, uint1, unsigned(v))
FETCH(short2, short2, int, int2, v.x, v.y)
FETCH(ushort4, ushort4, unsigned, uint4, v.x, v.y, v.z, v.w)
FETCH(int, int, int, int1, v)
FETCH(uint2, uint2, unsigned, uint2, v.x, v.y)
FETCH(int4, int4, int, int4, v.x, v.y, v.z, v.w)

HOST_CASE(fetch_floats) {
  auto elements = whole_numbers(240);
  auto object = texture_of(linear(on_device(elements), cudaCreateChannelDesc<float4>(), elements.bytes()), Settings());
  record_reads<float, float4>(record, [=] __device__(unsigned i) { return tex1Dfetch<float4>(object, i % 60); });
  expect_each<float>(record, [&](unsigned i) {
    const float *at = &elements.all[i % 60 * 4];
    return std::vector<float>(at, at + 4);
  });
}
HOST_CASE(halves) {
  auto numbers = whole_numbers(16, 4);
  Elements<unsigned short> elements(16, 4);
  for (size_t i = 0; i < elements.all.size(); i++)
    elements.all[i] = __half_as_ushort(__float2half(numbers.all[i]));
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDescHalf();
  check("cudaMallocArray", cudaMallocArray(&array, &format, 16, 4));
  check("copy", cudaMemcpy2DToArray(array, 0, 0, elements.all.data(), 32, 32, 4, cudaMemcpyHostToDevice));
  Settings settings = all(cudaAddressModeClamp, kLinear, false);
  auto object = texture_of(of_array(array), settings);
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    return tex2D<float>(object, spread(i, 1, 16, false), spread(i, 7, 4, false));
  });
  expect_each<float>(record, [&](unsigned i) {
    return model(numbers, 2, {spread(i, 1, 16, false), spread(i, 7, 4, false)}, settings);
  });
}

// Integers as parts of the largest.
#define PROMOTED(name, T, most)                                                                                        \
  HOST_CASE(promoted_##name) {                                                                                         \
    Elements<T> elements(64);                                                                                          \
    elements.all[0] = T(-1ull << (8 * sizeof(T) - 1));                                                                 \
    Settings settings;                                                                                                 \
    settings.read = cudaReadModeNormalizedFloat;                                                                       \
    auto object = texture_of(of_array(elements.array()), settings);                                                    \
    record_reads<float, float>(                                                                                        \
        record, [=] __device__(unsigned i) { return tex1D<float>(object, i + 0.5f); }, 1);                             \
    expect_each<float>(record, [&](unsigned i) {                                                                       \
      return std::vector<float>{fmaxf(float(elements.of(i)) / most, -1)};                                              \
    });                                                                                                                \
  }
PROMOTED(uchar, uint8_t, 255.0f)
PROMOTED(char, schar, 127.0f)
PROMOTED(ushort, ushort, 65535.0f)
PROMOTED(short, short, 32767.0f)

HOST_CASE(colours) {
  Elements<uchar4> elements(16, 4);
  Settings settings = all(cudaAddressModeWrap, kPoint, true);
  settings.read = cudaReadModeNormalizedFloat;
  auto object = texture_of(of_array(elements.array()), settings);
  auto read = [=] __device__(unsigned i) {
    return tex2D<float4>(object, (i % 16 + 0.5f) / 16, (i / 16 + 0.5f) / 4);
  };
  record_reads<float, float4>(record, read, 1);
  expect_each<float>(record, [&](unsigned i) {
    uchar4 v = elements.of(i % 16, i / 16);
    return std::vector<float>{v.x / 255.0f, v.y / 255.0f, v.z / 255.0f, v.w / 255.0f};
  });
}
HOST_CASE(integers_in_planes) {
  Elements<short2> elements(16, 4);
  auto object = texture_of(of_array(elements.array()), Settings());
  record_reads<int, int2>(record, [=] __device__(unsigned i) {
    short2 v = tex2D<short2>(object, i % 16 + 0.25f, i / 16 + 0.75f);
    return make_int2(v.x, v.y);
  });
  expect_each<int>(record, [&](unsigned i) {
    short2 v = elements.of(i % 16, i / 16);
    return std::vector<int>{v.x, v.y};
  });
}

// Pitched memory.
#define PITCHED(name, mode, filter, normalized)                                                                        \
  HOST_CASE(pitched_##name) {                                                                                          \
    auto elements = whole_numbers(16, 8);                                                                              \
    cudaResourceDesc resource = {};                                                                                    \
    resource.resType = cudaResourceTypePitch2D;                                                                        \
    auto &pitched = resource.res.pitch2D;                                                                              \
    check("cudaMallocPitch", cudaMallocPitch(&pitched.devPtr, &pitched.pitchInBytes, 64, 8));                          \
    check("copy", cudaMemcpy2D(pitched.devPtr, pitched.pitchInBytes, elements.all.data(), 64, 64, 8,                   \
                               cudaMemcpyHostToDevice));                                                               \
    pitched.desc = cudaCreateChannelDesc<float>();                                                                     \
    pitched.width = 16;                                                                                                \
    pitched.height = 8;                                                                                                \
    Settings settings = all(cudaAddressMode##mode, filter, normalized);                                                \
    auto object = texture_of(resource, settings);                                                                      \
    record_reads<float, float>(record, [=] __device__(unsigned i) {                                                    \
      return tex2D<float>(object, spread(i, 1, 16, normalized), spread(i, 7, 8, normalized));                          \
    });                                                                                                                \
    expect_each<float>(record, [&](unsigned i) {                                                                       \
      return model(elements, 2, {spread(i, 1, 16, normalized), spread(i, 7, 8, normalized)}, settings);                \
    });                                                                                                                \
  }
PITCHED(point, Clamp, kPoint, false)
PITCHED(linear, Clamp, kLinear, false)
PITCHED(border, Border, kLinear, false)
PITCHED(wrap, Wrap, kLinear, true)

// The other ways to read.
HOST_CASE(gather) {
  Elements<uchar4> elements(16, 4);
  auto object = texture_of(of_array(elements.array(cudaArrayTextureGather)), Settings());
  record_reads<unsigned, uint4>(record, [=] __device__(unsigned i) {
    float x = i % 16 + 0.25f, y = i / 16 + 0.25f;
    uchar4 v = i % 4 == 0   ? tex2Dgather<uchar4>(object, x, y, 0)
               : i % 4 == 1 ? tex2Dgather<uchar4>(object, x, y, 1)
               : i % 4 == 2 ? tex2Dgather<uchar4>(object, x, y, 2)
                            : tex2Dgather<uchar4>(object, x, y, 3);
    return make_uint4(v.x, v.y, v.z, v.w);
  });
  expect_each<unsigned>(record, [&](unsigned i) {
    size_t x = i % 16, y = i / 16, left = x ? x - 1 : 0, up = y ? y - 1 : 0;
    auto part = [&](size_t x, size_t y) -> unsigned {
      uchar4 v = elements.of(x, y);
      return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
    };
    return std::vector<unsigned>{part(left, y), part(x, y), part(x, up), part(left, up)};
  });
}
HOST_CASE(levels_and_gradients) {
  auto lines = whole_numbers(16), planes = whole_numbers(16, 8), boxes = whole_numbers(8, 4, 4);
  Settings settings = all(cudaAddressModeClamp, kLinear, true);
  auto line = texture_of(of_array(lines.array()), settings), plane = texture_of(of_array(planes.array()), settings),
       box = texture_of(of_array(boxes.array()), settings);
  record_reads<float, float4>(record, [=] __device__(unsigned i) {
    float x = spread(i, 1, 16, true), y = spread(i, 7, 8, true);
    float2 d = make_float2(0.01f * i, 0.5f);
    return make_float4(tex1DLod<float>(line, x, i % 3), tex2DLod<float>(plane, x, y, i % 5),
                       tex2DGrad<float>(plane, x, y, d, d),
                       tex3DLod<float>(box, coarse(i, 1, 8, true), coarse(i, 7, 4, true), coarse(i, 19, 4, true), 0));
  });
  expect_each<float>(record, [&](unsigned i) {
    float x = spread(i, 1, 16, true), y = spread(i, 7, 8, true);
    float flat = model(planes, 2, {x, y}, settings)[0];
    return std::vector<float>{model(lines, 1, {x}, settings)[0], flat, flat,
                              model(boxes, 3, {coarse(i, 1, 8, true), coarse(i, 7, 4, true), coarse(i, 19, 4, true)},
                                    settings)[0]};
  });
}
HOST_CASE(residency) {
  auto elements = whole_numbers(16, 8);
  auto object = texture_of(of_array(elements.array()), Settings());
  record_reads<float, float2>(record, [=] __device__(unsigned i) {
    bool there = false;
    float value = tex2D<float>(object, i % 16 + 0.5f, i / 16 + 0.5f, &there);
    return make_float2(value, there);
  });
  expect_each<float>(record, [&](unsigned i) { return std::vector<float>{elements.of(i % 16, i / 16), 1}; });
}

// Objects that a kernel finds in memory, and threads that wait for each other.
HOST_CASE(objects_in_memory) {
  cudaTextureObject_t objects[4];
  std::vector<Elements<float>> lines;
  for (int at = 0; at < 4; at++) {
    lines.push_back(whole_numbers(16 + at));
    objects[at] = texture_of(of_array(lines[at].array()), Settings());
  }
  cudaTextureObject_t *found;
  check("cudaMalloc", cudaMalloc(&found, sizeof objects));
  check("cudaMemcpy", cudaMemcpy(found, objects, sizeof objects, cudaMemcpyHostToDevice));
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    __shared__ float shared[kReads];
    shared[i] = tex1D<float>(found[i % 4], i / 4 + 0.5f);
    __syncthreads();
    return shared[kReads - 1 - i];
  });
  expect_each<float>(record, [&](unsigned i) {
    unsigned j = kReads - 1 - i;
    return std::vector<float>{lines[j % 4].of(j / 4)};
  });
}
