// Texture objects: views of arrays, and what objects say of themselves.
#include "textures.h"

HOST_CASE(views) {
  Elements<unsigned> elements(16, 8, 4);
  for (unsigned &one : elements.all)
    one = (one & 0x807fffff) | 0x40000000;
  cudaResourceViewDesc view = {};
  view.format = cudaResViewFormatFloat1;
  view.width = 16;
  view.height = 8;
  view.depth = 4;
  view.firstLayer = 1;
  view.lastLayer = 2;
  auto object = texture_of(of_array(elements.array(cudaArrayLayered)), Settings(), &view);
  record_reads<float, float>(record, [=] __device__(unsigned i) {
    return tex2DLayered<float>(object, i % 16 + 0.5f, i / 16 + 0.5f, i % 2);
  });
  expect_each<float>(record, [&](unsigned i) {
    float value;
    memcpy(&value, &elements.of(i % 16, i / 16, 1 + i % 2), sizeof value);
    return std::vector<float>{value};
  });
}
HOST_CASE(descriptions) {
  auto elements = whole_numbers(256);
  float *memory = on_device(elements);
  // Not the border's colour: the driver answers anything.
  Settings settings = all(cudaAddressModeBorder, kPoint, true);
  settings.y = cudaAddressModeMirror;
  auto object = texture_of(linear(memory, cudaCreateChannelDesc<float2>(), 1024), settings);
  cudaResourceDesc resource = {};
  cudaTextureDesc texture = {};
  cudaResourceViewDesc view = {};
  put(record, int(cudaGetTextureObjectResourceDesc(&resource, object)));
  put(record, int(cudaGetTextureObjectTextureDesc(&texture, object)));
  put(record, int(resource.resType)), put(record, int(resource.res.linear.devPtr == memory));
  put(record, resource.res.linear.sizeInBytes), put(record, resource.res.linear.desc.y);
  put(record, int(resource.res.linear.desc.f)), put(record, int(texture.addressMode[0]));
  put(record, int(texture.addressMode[1])), put(record, int(texture.filterMode)), put(record, int(texture.readMode));
  put(record, texture.normalizedCoords);
  put(record, int(cudaGetTextureObjectResourceViewDesc(&view, object)));
  put(record, int(cudaDestroyTextureObject(object)));
  cudaGetLastError();
  expect(record, {0, 0, cudaResourceTypeLinear, 1, 1024, 32, cudaChannelFormatKindFloat, cudaAddressModeBorder,
                  cudaAddressModeMirror, cudaFilterModePoint, cudaReadModeElementType, 1, cudaSuccess, 0});
}
