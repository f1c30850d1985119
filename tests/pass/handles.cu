// Classes around device pointers, as libraries of templates have them: a vector that owns its memory, iterators
// and handles that are made of its pointer and give it back, sizes by references to variables, and arguments of
// kernels that are classes with a copy constructor.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

template <class T> const T &larger(const T &a, const T &b) { return a < b ? b : a; }

template <class T> class Handle {
public:
  Handle(T *pointer) : pointer(pointer) {}
  T *get() const { return pointer; }
  Handle operator+(size_t n) const { return Handle(pointer + n); }

private:
  T *pointer;
};
template <class T> T *raw(Handle<T> handle) {
  T *pointer = handle.get();
  if (!pointer)
    printf("empty\n");
  return pointer;
}

// Its copy constructor has it passed by address.
template <class T> struct Argument {
  Argument(T *pointer) : pointer(pointer), size(0) {}
  Argument(const Argument &other) : pointer(other.pointer), size(other.size) {}
  T *pointer;
  size_t size;
};

template <class T> class Vector {
public:
  explicit Vector(size_t n) : start(nullptr), count(n) {
    if (n > 0) {
      size_t room = larger(count, size_t(0));
      T *memory = nullptr;
      if (cudaMalloc(&memory, room * sizeof(T)) != cudaSuccess)
        throw 1;
      start = Handle<T>(memory);
    }
  }
  ~Vector() {
    if (count > 0)
      cudaFree(start.get());
  }
  Handle<T> begin() { return start; }
  Handle<T> end() { return start + count; }
  size_t size() const { return count; }

private:
  Handle<T> start;
  size_t count;
};

template <class T> __global__ void filled(Argument<T> to, size_t n) {}
template <class T> void fill(Handle<T> first, Handle<T> last) {
  T *to = raw(first);
  size_t n = size_t(raw(last) - to);
  filled<<<n, 32>>>(Argument<T>(to), n);
}

// CHECK: static in vectors(unsigned long)
// CHECK: op launch void filled<int>(Argument<int>, unsigned long) [1]
// CHECK: op launch void filled<double>(Argument<double>, unsigned long) [2]
// CHECK-NOT: lazy in vectors
void vectors(size_t n) {
  Vector<int> words(n);
  Vector<double> reals(2 * n);
  fill(words.begin(), words.end());
  fill(reals.begin(), reals.end());
  cudaMemcpy(raw(words.begin()), raw(reals.begin()), 4 * n, cudaMemcpyDeviceToDevice);
}

// A handle that goes elsewhere takes the pointer with it.
void keep(Handle<int> handle);
// CHECK: lazy in given_away(unsigned long)
// CHECK: why address-escapes
void given_away(size_t n) {
  Vector<int> words(n);
  keep(words.begin());
  fill(words.begin(), words.end());
}
// As does an argument of a kernel that keeps its address.
struct Remembered {
  Remembered(int *pointer) : pointer(pointer) { last = this; }
  Remembered(const Remembered &other) : pointer(other.pointer) { last = this; }
  int *pointer;
  static Remembered *last;
};
__global__ void one(Remembered argument) {}
// CHECK: lazy in remembered()
// CHECK: why address-escapes
void remembered() {
  int *x;
  cudaMalloc(&x, 64);
  one<<<1, 1>>>(Remembered(x));
  cudaFree(x);
}
