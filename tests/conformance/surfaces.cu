// Surfaces: every width, shape and boundary mode, read and written.
#include "images.h"

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = of_array(array);
  cudaSurfaceObject_t object = 0;
  check("cudaCreateSurfaceObject", cudaCreateSurfaceObject(&object, &resource));
  return object;
}
static constexpr unsigned kStore = cudaArraySurfaceLoadStore;

// The bytes of elements, in words.
template <class T> static void record_bytes(Record &record, const Elements<T> &elements) {
  record.type = "u32";
  auto *bytes = reinterpret_cast<const unsigned char *>(elements.all.data());
  for (size_t at = 0; at < elements.bytes(); at += 4) {
    uint32_t word = 0;
    memcpy(&word, bytes + at, std::min<size_t>(4, elements.bytes() - at));
    record.values.push_back(word);
  }
}
template <class T> static void expect_bytes(const Record &record, const Elements<T> &elements) {
  Record model;
  record_bytes(model, elements);
  expect(record, model.values);
}
template <class Work> __global__ void work_each(Work work) { work(threadIdx.x); }
template <class Work> static void run(Work work) {
  work_each<<<1, kReads>>>(work);
  check("launch", cudaGetLastError());
  check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

// Every width: each thread moves an element to where the one after it was.
#define MOVES(T)                                                                                                       \
  HOST_CASE(moves_##T) {                                                                                               \
    Elements<T> from(kReads), to(kReads);                                                                              \
    auto source = surface_of(from.array(kStore));                                                                      \
    cudaArray_t array = to.array(kStore);                                                                              \
    auto target = surface_of(array);                                                                                   \
    run([=] __device__(unsigned i) {                                                                                   \
      T value = surf1Dread<T>(source, (i + 1) % kReads * int(sizeof(T)));                                              \
      surf1Dwrite(value, target, i * int(sizeof(T)));                                                                  \
    });                                                                                                                \
    to.fetch(array);                                                                                                   \
    record_bytes(record, to);                                                                                          \
    Elements<T> model(kReads);                                                                                         \
    for (unsigned i = 0; i < kReads; i++)                                                                              \
      model.all[i] = from.of((i + 1) % kReads);                                                                        \
    expect_bytes(record, model);                                                                                       \
  }
MOVES(char)
MOVES(uchar2)
MOVES(char4)
MOVES(ushort)
MOVES(short2)
MOVES(ushort4)
MOVES(int)
MOVES(uint2)
MOVES(int4)
MOVES(float)
MOVES(float2)
MOVES(float4)

// An access may be wider than an element, or narrower.
HOST_CASE(other_widths) {
  Elements<float2> elements(kReads);
  auto object = surface_of(elements.array(kStore));
  record_reads<unsigned, uint4>(record, [=] __device__(unsigned i) {
    unsigned long long whole = surf1Dread<unsigned long long>(object, i * 8);
    return make_uint4(surf1Dread<unsigned short>(object, i * 8 + 2), surf1Dread<unsigned char>(object, i * 8 + 7),
                      unsigned(whole), unsigned(whole >> 32));
  });
  expect_each<unsigned>(record, [&](unsigned i) {
    unsigned words[2];
    memcpy(words, &elements.of(i), 8);
    return std::vector<unsigned>{words[0] >> 16, words[1] >> 24, words[0], words[1]};
  });
}

// Shapes: places inside and around, by every mode.
__host__ __device__ static int around(unsigned i, unsigned step, int size) { return int(i * step % (size + 4)) - 2; }
static int clamped(int at, size_t size) { return at < 0 ? 0 : at >= int(size) ? int(size) - 1 : at; }
static bool inside(int at, size_t size) { return at >= 0 && at < int(size); }
static std::vector<int> model(const Elements<int> &e, int x, int y, int z, cudaSurfaceBoundaryMode mode) {
  if (mode == cudaBoundaryModeZero && !(inside(x, e.extent.width) && inside(y, e.rows()) && inside(z, e.planes())))
    return {0};
  return {e.of(clamped(x, e.extent.width), clamped(y, e.rows()), clamped(z, e.planes()))};
}
#define READS(name, mode)                                                                                              \
  HOST_CASE(reads_line_##name) {                                                                                       \
    Elements<int> e(16);                                                                                               \
    auto object = surface_of(e.array(kStore));                                                                         \
    record_reads<int, int>(                                                                                            \
        record, [=] __device__(unsigned i) { return surf1Dread<int>(object, around(i, 1, 16) * 4, mode); });           \
    expect_each<int>(record, [&](unsigned i) { return model(e, around(i, 1, 16), 0, 0, mode); });                      \
  }                                                                                                                    \
  HOST_CASE(reads_plane_##name) {                                                                                      \
    Elements<int> e(8, 5);                                                                                             \
    auto object = surface_of(e.array(kStore));                                                                         \
    record_reads<int, int>(record, [=] __device__(unsigned i) {                                                        \
      return surf2Dread<int>(object, around(i, 1, 8) * 4, around(i, 2, 5), mode);                                      \
    });                                                                                                                \
    expect_each<int>(record, [&](unsigned i) { return model(e, around(i, 1, 8), around(i, 2, 5), 0, mode); });         \
  }                                                                                                                    \
  HOST_CASE(reads_box_##name) {                                                                                        \
    Elements<int> e(8, 5, 3);                                                                                          \
    auto object = surface_of(e.array(kStore));                                                                         \
    record_reads<int, int>(record, [=] __device__(unsigned i) {                                                        \
      return surf3Dread<int>(object, around(i, 1, 8) * 4, around(i, 2, 5), around(i, 3, 3), mode);                     \
    });                                                                                                                \
    expect_each<int>(record,                                                                                           \
                     [&](unsigned i) { return model(e, around(i, 1, 8), around(i, 2, 5), around(i, 3, 3), mode); });   \
  }
READS(zero, cudaBoundaryModeZero)
READS(clamp, cudaBoundaryModeClamp)

// Writes: threads of distinct places, some of them outside.
#define WRITES(name, mode)                                                                                             \
  HOST_CASE(writes_plane_##name) {                                                                                     \
    Elements<int> e(8, 4);                                                                                             \
    cudaArray_t array = e.array(kStore);                                                                               \
    auto object = surface_of(array);                                                                                   \
    run([=] __device__(unsigned i) {                                                                                   \
      int x = int(i % 8), y = int(i / 8) - 2;                                                                          \
      surf2Dwrite(y < 0 || y > 3 ? 7 : int(i), object, x * 4, y, mode);                                                \
    });                                                                                                                \
    e.fetch(array);                                                                                                    \
    /* The rows at the edge are written by several threads. */                                                         \
    bool edges = mode == cudaBoundaryModeClamp;                                                                        \
    for (unsigned x = 0; x < 8 && edges; x++)                                                                          \
      e.all[x] = e.all[24 + x] = 0;                                                                                    \
    record_bytes(record, e);                                                                                           \
    Elements<int> wanted(8, 4);                                                                                        \
    for (unsigned i = 0; i < 32; i++)                                                                                  \
      wanted.all[i] = edges && (i < 8 || i >= 24) ? 0 : int(i) + 16;                                                   \
    expect_bytes(record, wanted);                                                                                      \
  }
WRITES(zero, cudaBoundaryModeZero)
WRITES(clamp, cudaBoundaryModeClamp)

HOST_CASE(writes_boxes_and_layers) {
  Elements<int> box(4, 4, 4), lines(16, 0, 4), planes(4, 4, 4);
  cudaArray_t arrays[] = {box.array(kStore), lines.array(kStore | cudaArrayLayered),
                          planes.array(kStore | cudaArrayLayered)};
  auto in_box = surface_of(arrays[0]), in_lines = surface_of(arrays[1]), in_planes = surface_of(arrays[2]);
  run([=] __device__(unsigned i) {
    int x = i % 4, y = i / 4 % 4, z = i / 16;
    surf3Dwrite(int(i) + 100, in_box, x * 4, y, z);
    surf1DLayeredwrite(int(i) + 200, in_lines, int(i % 16) * 4, z);
    surf2DLayeredwrite(int(i) + surf3Dread<int>(in_box, x * 4, y, z), in_planes, x * 4, y, z);
  });
  box.fetch(arrays[0]), lines.fetch(arrays[1]), planes.fetch(arrays[2]);
  std::vector<uint64_t> wanted;
  record.type = "u32";
  for (const auto *one : {&box, &lines, &planes})
    for (unsigned i = 0; i < kReads; i++) {
      record.values.push_back(uint32_t(one->all[i]));
      wanted.push_back(one == &box ? i + 100 : one == &lines ? i + 200 : 2 * i + 100);
    }
  expect(record, wanted);
}
HOST_CASE(reads_layers) {
  Elements<int> lines(16, 0, 4), planes(8, 4, 2);
  auto line = surface_of(lines.array(kStore | cudaArrayLayered));
  auto plane = surface_of(planes.array(kStore | cudaArrayLayered));
  record_reads<int, int2>(record, [=] __device__(unsigned i) {
    return make_int2(surf1DLayeredread<int>(line, around(i, 1, 16) * 4, i % 4, cudaBoundaryModeClamp),
                     surf2DLayeredread<int>(plane, around(i, 1, 8) * 4, around(i, 2, 4), i % 2, cudaBoundaryModeZero));
  });
  expect_each<int>(record, [&](unsigned i) {
    int one = model(lines, around(i, 1, 16), 0, i % 4, cudaBoundaryModeClamp)[0];
    int two = model(planes, around(i, 1, 8), around(i, 2, 4), i % 2, cudaBoundaryModeZero)[0];
    return std::vector<int>{one, two};
  });
}
HOST_CASE(faces_of_cubes) {
  Elements<int> cube(4, 4, 6);
  cudaArray_t array = cube.array(kStore | cudaArrayCubemap);
  auto object = surface_of(array);
  run([=] __device__(unsigned i) {
    int x = i % 4 * 4, y = i / 4 % 4;
    surfCubemapwrite(surfCubemapread<int>(object, x, y, i / 16) + 1, object, x, y, i / 16);
  });
  Elements<int> wanted = cube;
  for (unsigned i = 0; i < kReads; i++)
    wanted.all[i]++;
  cube.fetch(array);
  record_bytes(record, cube);
  expect_bytes(record, wanted);
}

// What a surface has written, a texture of the same array reads in the next kernel.
HOST_CASE(written_and_sampled) {
  auto elements = whole_numbers(16, 4);
  cudaArray_t array = elements.array(kStore);
  auto object = surface_of(array);
  run([=] __device__(unsigned i) { surf2Dwrite(float(i), object, int(i % 16) * 4, i / 16); });
  cudaResourceDesc resource = of_array(array);
  cudaTextureDesc settings = {};
  settings.addressMode[0] = settings.addressMode[1] = cudaAddressModeClamp;
  settings.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  check("cudaCreateTextureObject", cudaCreateTextureObject(&texture, &resource, &settings, nullptr));
  record_reads<float, float>(record,
                             [=] __device__(unsigned i) { return tex2D<float>(texture, i % 16 + 1, i / 16 + 0.5f); });
  expect_each<float>(record, [&](unsigned i) { return std::vector<float>{i + (i % 16 == 15 ? 0 : 0.5f)}; });
}

HOST_CASE(descriptions) {
  Elements<int> elements(16, 4);
  cudaArray_t array = elements.array(kStore);
  auto object = surface_of(array);
  cudaResourceDesc resource;
  put(record, int(cudaGetSurfaceObjectResourceDesc(&resource, object)));
  put(record, int(resource.resType)), put(record, int(resource.res.array.array == array));
  put(record, int(cudaDestroySurfaceObject(object)));
  expect(record, {0, cudaResourceTypeArray, 1, 0});
}
