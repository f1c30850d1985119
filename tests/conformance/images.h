// What the cases about textures and surfaces share: arrays with known elements, and kernels that read a value in each
// thread.

#pragma once

#include "conformance.h"

using conformance::check;
using conformance::expect;
using conformance::Record;

// Values of one kernel: one thread each.
constexpr unsigned kReads = 64;

template <class R, class Read> __global__ void read_each(Read read, R *out) { out[threadIdx.x] = read(threadIdx.x); }

// What `read` gives in each thread, in words of the type that R is made of.
template <class Word, class R, class Read> void record_reads(Record &record, Read read, unsigned ulps = 0) {
  R *device;
  std::vector<Word> words(kReads * sizeof(R) / sizeof(Word));
  check("cudaMalloc", cudaMalloc(&device, kReads * sizeof(R)));
  read_each<R><<<1, kReads>>>(read, device);
  check("launch", cudaGetLastError());
  check("cudaMemcpy", cudaMemcpy(words.data(), device, kReads * sizeof(R), cudaMemcpyDeviceToHost));
  record.type = conformance::type_name<Word>(ulps);
  for (Word word : words)
    record.values.push_back(conformance::bits(word));
}

// The host's view of the same, by thread.
template <class Word, class Model> void expect_each(const Record &record, Model model) {
  std::vector<uint64_t> values;
  for (unsigned i = 0; i < kReads; i++)
    for (Word word : std::vector<Word>(model(i)))
      values.push_back(conformance::bits(word));
  expect(record, values);
}

// Elements of an array in rows and planes; a height or depth of zero means fewer dimensions.
template <class T> struct Elements {
  cudaExtent extent;
  std::vector<T> all;

  Elements(size_t width, size_t height = 0, size_t depth = 0) : extent(make_cudaExtent(width, height, depth)) {
    all.resize(width * rows() * planes());
    auto *bytes = reinterpret_cast<unsigned char *>(all.data());
    for (size_t i = 0; i < all.size() * sizeof(T); i++)
      bytes[i] = (unsigned char)conformance::scatter(unsigned(i));
  }

  size_t rows() const { return extent.height ? extent.height : 1; }
  size_t planes() const { return extent.depth ? extent.depth : 1; }
  size_t bytes() const { return all.size() * sizeof(T); }
  const T &of(size_t x, size_t y = 0, size_t z = 0) const { return all[(z * rows() + y) * extent.width + x]; }

  cudaMemcpy3DParms copy() const {
    cudaMemcpy3DParms copy = {};
    copy.extent = make_cudaExtent(extent.width, rows(), planes());
    return copy;
  }

  // An array of a device that holds them.
  cudaArray_t array(unsigned flags = 0) const {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
    check("cudaMalloc3DArray", cudaMalloc3DArray(&array, &format, extent, flags));
    cudaMemcpy3DParms copy = this->copy();
    copy.srcPtr = make_cudaPitchedPtr(const_cast<T *>(all.data()), extent.width * sizeof(T), extent.width, rows());
    copy.dstArray = array;
    copy.kind = cudaMemcpyHostToDevice;
    check("cudaMemcpy3D", cudaMemcpy3D(&copy));
    return array;
  }

  // What an array holds now.
  void fetch(cudaArray_t array) {
    cudaMemcpy3DParms copy = this->copy();
    copy.dstPtr = make_cudaPitchedPtr(all.data(), extent.width * sizeof(T), extent.width, rows());
    copy.srcArray = array;
    copy.kind = cudaMemcpyDeviceToHost;
    check("cudaMemcpy3D", cudaMemcpy3D(&copy));
  }
};

// Whole numbers: what is mixed of them with weights of eight bits is exact.
inline Elements<float> whole_numbers(size_t width, size_t height = 0, size_t depth = 0) {
  Elements<float> elements(width, height, depth);
  for (size_t i = 0; i < elements.all.size(); i++)
    elements.all[i] = float(conformance::scatter(unsigned(i)) % 1024) - 300;
  return elements;
}

inline cudaResourceDesc of_array(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}
