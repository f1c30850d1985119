// Device pointers that templates of libraries carry: through a function with memory of its own that swaps them, and in a
// structure that is filled by copies of other members.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

template <class T> __global__ void sort(T *keys, T *spare, const int *segments, int n) {}

template <class T> void swap(T &one, T &other) {
  T kept = one;
  one = other;
  other = kept;
}

// Small functions between, which launch nothing themselves.
template <class T> void dispatch(T *keys, T *spare, const int *segments, int n) {
  for (int width = 1; width < n; width *= 2)
    sort<<<n, 32>>>(keys, spare, segments, n);
}
template <class T> void run(T *keys, T *spare, const int *segments, int n) { dispatch(keys, spare, segments, n); }

template <class T> int segmented(T *&keys, const int *segments, int n) {
  T *spare;
  if (cudaMalloc(&spare, n * sizeof(T)) != cudaSuccess)
    return 1;
  run(keys, spare, segments, n);
  swap(keys, spare);
  return cudaFree(spare);
}

// CHECK: task 1 static in sorted(long*, int)
// CHECK: object 1 keys: 8 * n
// CHECK: object 3 spare: 8 * n
// CHECK: op launch void sort<long>(long*, long*, int const*, int)
void sorted(long *host, int n) {
  long *keys;
  int *segments;
  cudaMalloc(&keys, n * sizeof(long));
  cudaMalloc(&segments, n * sizeof(int));
  cudaMemcpy(keys, host, n * sizeof(long), cudaMemcpyHostToDevice);
  segmented(keys, segments, n);
  cudaMemcpy(host, keys, n * sizeof(long), cudaMemcpyDeviceToHost);
  cudaFree(keys);
  cudaFree(segments);
}

// As std::copy is written: functions that only pass pointers on, and a loop or a move of bytes at the end.
template <class T> T *begin(T *pointer) { return pointer; }
template <class T> T *copied(const T *first, const T *last, T *to) {
  long count = last - first;
  if (count > 1)
    __builtin_memmove(to, first, count * sizeof(T));
  else if (count == 1)
    *to = *first;
  return to + count;
}
template <class T> T *copy(const T *first, const T *last, T *to) { return copied(begin(first), begin(last), begin(to)); }

template <class T, int N> struct Tensor {
  T *data;
  long sizes[N], strides[N];
  Tensor(T *data, const long *s, const long *d) : data(data) {
    copy(s, s + N, sizes);
    for (int i = 0; i < N; i++)
      strides[i] = d[i];
  }
};
__global__ void product(Tensor<float, 2> matrix, Tensor<float, 1> vector) {}

// CHECK: task 2 static in multiplied(long, long)
// CHECK: op launch product(Tensor<float, 2>, Tensor<float, 1>) [1,2]
void multiplied(long rows, long columns) {
  long sizes[] = {rows, columns}, strides[] = {columns, 1};
  float *m, *v;
  cudaMalloc(&m, rows * columns * sizeof(float));
  cudaMalloc(&v, columns * sizeof(float));
  Tensor<float, 2> matrix(m, sizes, strides);
  Tensor<float, 1> vector(v, &columns, strides + 1);
  for (int i = 0; i < 3; i++)
    product<<<rows, 32>>>(matrix, vector);
  cudaFree(m);
  cudaFree(v);
}

// Whose address other code gets may hold anything.
void look(Tensor<float, 2> &tensor);
// CHECK: task 3 lazy in looked_at(long, long)
// CHECK: why address-escapes
void looked_at(long rows, long columns) {
  long sizes[] = {rows, columns}, strides[] = {columns, 1};
  float *m, *v;
  cudaMalloc(&m, rows * columns * sizeof(float));
  cudaMalloc(&v, columns * sizeof(float));
  Tensor<float, 2> matrix(m, sizes, strides);
  Tensor<float, 1> vector(v, &columns, strides + 1);
  look(matrix);
  product<<<rows, 32>>>(matrix, vector);
  cudaFree(m);
  cudaFree(v);
}

// Pointers that are moved as bytes are not lost: they are copied from a variable that is followed.
// CHECK: task 4 static in moved(int)
// CHECK: op launch void sort<long>(long*, long*, int const*, int) [1,2]
void moved(int n) {
  long *all[2], *here[2];
  cudaMalloc(&all[0], n);
  cudaMalloc(&all[1], n);
  __builtin_memmove(here, all, sizeof here);
  sort<long><<<n, 32>>>(here[0], here[1], nullptr, n);
  cudaFree(here[0]);
  cudaFree(here[1]);
}
