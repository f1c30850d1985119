// What the programs of this folder call of cuBLAS, declared here, since not every CUDA comes with its headers; and what
// the programs share: checks that say where, arrays, and numbers to compute with.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

using Handle = struct cublasContext *;
enum Operation { N, T, C };
enum Side { Left, Right };
enum Fill { Lower, Upper };
enum Diagonal { NonUnit, Unit };
enum PointerMode { Host, Device };
using Float2 = std::complex<float>;
using Double2 = std::complex<double>;

extern "C" {
int cublasCreate_v2(Handle *);
int cublasDestroy_v2(Handle);
int cublasSetStream_v2(Handle, cudaStream_t);
int cublasGetStream_v2(Handle, cudaStream_t *);
int cublasSetPointerMode_v2(Handle, PointerMode);
int cublasGetPointerMode_v2(Handle, PointerMode *);
int cublasSetMathMode(Handle, int);
int cublasGetMathMode(Handle, int *);
int cublasSetWorkspace_v2(Handle, void *, size_t);
int cublasGetVersion_v2(Handle, int *);
const char *cublasGetStatusName(int);
int cublasSetVector(int, int, const void *, int, void *, int);
int cublasGetVector(int, int, const void *, int, void *, int);
int cublasSetMatrix(int, int, int, const void *, int, void *, int);
int cublasGetMatrix(int, int, int, const void *, int, void *, int);
int cublasSetMatrixAsync(int, int, int, const void *, int, void *, int, cudaStream_t);
int cublasGetMatrixAsync(int, int, int, const void *, int, void *, int, cudaStream_t);
int cublasScnrm2_v2(Handle, int, const Float2 *, int, float *);
int cublasDzasum_v2(Handle, int, const Double2 *, int, double *);
int cublasCdotc_v2(Handle, int, const Float2 *, int, const Float2 *, int, Float2 *);
int cublasCsscal_v2(Handle, int, const float *, Float2 *, int);
int cublasSrot_v2(Handle, int, float *, int, float *, int, const float *, const float *);
int cublasSdot_v2_64(Handle, int64_t, const float *, int64_t, const float *, int64_t, float *);
int cublasIdamax_v2_64(Handle, int64_t, const double *, int64_t, int64_t *);
int cublasDotEx(Handle, int, const void *, int, int, const void *, int, int, void *, int, int);
int cublasGemmEx(Handle, Operation, Operation, int, int, int, const void *, const void *, int, int, const void *, int, int,
                 const void *, void *, int, int, int, int);
int cublasGemmStridedBatchedEx(Handle, Operation, Operation, int, int, int, const void *, const void *, int, int, long long,
                               const void *, int, int, long long, const void *, void *, int, int, long long, int, int, int);
int cublasCgerc_v2(Handle, int, int, const Float2 *, const Float2 *, int, const Float2 *, int, Float2 *, int);
}

// Functions of each type, under one name.
#define FOR_EACH(define)                                                                                               \
  define(float, S, s) define(double, D, d) define(Float2, C, c) define(Double2, Z, z)
#define LEVEL1(Ty, L, l)                                                                                                 \
  extern "C" {                                                                                                         \
  int cublas##L##axpy_v2(Handle, int, const Ty *, const Ty *, int, Ty *, int);                                         \
  int cublas##L##scal_v2(Handle, int, const Ty *, Ty *, int);                                                          \
  int cublas##L##copy_v2(Handle, int, const Ty *, int, Ty *, int);                                                     \
  int cublas##L##swap_v2(Handle, int, Ty *, int, Ty *, int);                                                           \
  int cublasI##l##amax_v2(Handle, int, const Ty *, int, int *);                                                        \
  int cublasI##l##amin_v2(Handle, int, const Ty *, int, int *);                                                        \
  }                                                                                                                    \
  inline int axpy(Handle h, int n, const Ty *a, const Ty *x, int i, Ty *y, int j) {                                    \
    return cublas##L##axpy_v2(h, n, a, x, i, y, j);                                                                    \
  }                                                                                                                    \
  inline int scal(Handle h, int n, const Ty *a, Ty *x, int i) { return cublas##L##scal_v2(h, n, a, x, i); }            \
  inline int copy(Handle h, int n, const Ty *x, int i, Ty *y, int j) { return cublas##L##copy_v2(h, n, x, i, y, j); }  \
  inline int swap(Handle h, int n, Ty *x, int i, Ty *y, int j) { return cublas##L##swap_v2(h, n, x, i, y, j); }        \
  inline int amax(Handle h, int n, const Ty *x, int i, int *to) { return cublasI##l##amax_v2(h, n, x, i, to); }        \
  inline int amin(Handle h, int n, const Ty *x, int i, int *to) { return cublasI##l##amin_v2(h, n, x, i, to); }
FOR_EACH(LEVEL1)

#define DOT(Ty, name)                                                                                                  \
  extern "C" int name(Handle, int, const Ty *, int, const Ty *, int, Ty *);                                            \
  inline int dot(Handle h, int n, const Ty *x, int i, const Ty *y, int j, Ty *to) { return name(h, n, x, i, y, j, to); }
DOT(float, cublasSdot_v2)
DOT(double, cublasDdot_v2)
DOT(Float2, cublasCdotu_v2)
DOT(Double2, cublasZdotu_v2)

#define NORMS(Ty, norm, sum)                                                                                           \
  extern "C" int norm(Handle, int, const Ty *, int, Ty *);                                                             \
  extern "C" int sum(Handle, int, const Ty *, int, Ty *);                                                              \
  inline int nrm2(Handle h, int n, const Ty *x, int i, Ty *to) { return norm(h, n, x, i, to); }                        \
  inline int asum(Handle h, int n, const Ty *x, int i, Ty *to) { return sum(h, n, x, i, to); }
NORMS(float, cublasSnrm2_v2, cublasSasum_v2)
NORMS(double, cublasDnrm2_v2, cublasDasum_v2)

#define MATRICES(Ty, L, l)                                                                                               \
  extern "C" {                                                                                                         \
  int cublas##L##gemv_v2(Handle, Operation, int, int, const Ty *, const Ty *, int, const Ty *, int, const Ty *, Ty *,  \
                         int);                                                                                         \
  int cublas##L##gemm_v2(Handle, Operation, Operation, int, int, int, const Ty *, const Ty *, int, const Ty *, int,    \
                         const Ty *, Ty *, int);                                                                       \
  int cublas##L##gemmBatched(Handle, Operation, Operation, int, int, int, const Ty *, const Ty *const *, int,          \
                             const Ty *const *, int, const Ty *, Ty *const *, int, int);                               \
  int cublas##L##gemmStridedBatched(Handle, Operation, Operation, int, int, int, const Ty *, const Ty *, int,          \
                                    long long, const Ty *, int, long long, const Ty *, Ty *, int, long long, int);     \
  int cublas##L##geam(Handle, Operation, Operation, int, int, const Ty *, const Ty *, int, const Ty *, const Ty *,     \
                      int, Ty *, int);                                                                                 \
  int cublas##L##dgmm(Handle, Side, int, int, const Ty *, int, const Ty *, int, Ty *, int);                            \
  int cublas##L##trsm_v2(Handle, Side, Fill, Operation, Diagonal, int, int, const Ty *, const Ty *, int, Ty *, int);   \
  }                                                                                                                    \
  inline auto gemv_of(const Ty *) { return cublas##L##gemv_v2; }                                                       \
  inline auto gemm_of(const Ty *) { return cublas##L##gemm_v2; }                                                       \
  inline auto batched_of(const Ty *) { return cublas##L##gemmBatched; }                                                \
  inline auto strided_of(const Ty *) { return cublas##L##gemmStridedBatched; }                                         \
  inline auto geam_of(const Ty *) { return cublas##L##geam; }                                                          \
  inline auto dgmm_of(const Ty *) { return cublas##L##dgmm; }                                                          \
  inline auto trsm_of(const Ty *) { return cublas##L##trsm_v2; }
FOR_EACH(MATRICES)

#define GER(Ty, name)                                                                                                  \
  extern "C" int name(Handle, int, int, const Ty *, const Ty *, int, const Ty *, int, Ty *, int);                      \
  inline auto ger_of(const Ty *) { return name; }
GER(float, cublasSger_v2)
GER(double, cublasDger_v2)
GER(Float2, cublasCgeru_v2)
GER(Double2, cublasZgeru_v2)

#define EXPECT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                                    \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

// Calls of the runtime and of the library: success is 0 in both.
#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if (int code = int(call)) {                                                                                        \
      fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, code);                                        \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

// Some number of any type, the same each time.
template <class Ty> Ty some(int i) { return Ty((i * 37 + 11) % 41 - 20) / Ty(8); }
template <> inline Float2 some(int i) { return {some<float>(i), some<float>(i + 5)}; }
template <> inline Double2 some(int i) { return {some<double>(i), some<double>(i + 5)}; }
template <class Ty> std::vector<Ty> numbers(int n, int seed) {
  std::vector<Ty> all(n);
  for (int i = 0; i < n; i++)
    all[i] = some<Ty>(i + seed);
  return all;
}

// What the host computes in.
inline double wide(float x) { return x; }
inline double wide(double x) { return x; }
inline Double2 wide(Float2 x) { return {x.real(), x.imag()}; }
inline Double2 wide(Double2 x) { return x; }
inline double conjugate(double x) { return x; }
inline Double2 conjugate(Double2 x) { return std::conj(x); }

// Within a few units of the last place of all terms together.
template <class A, class B> bool near(A found, B wanted, double size, double units = 4) {
  bool single = std::is_same<A, float>::value || std::is_same<A, Float2>::value;
  return std::abs(wide(found) - wide(wanted)) <= units * (single ? 6e-8 : 1.2e-16) * (size + std::abs(wanted));
}

// An array on the device.
template <class Ty> struct Array {
  Ty *data;
  size_t count;
  explicit Array(const std::vector<Ty> &values) : count(values.size()) {
    OK(cudaMalloc((void **)&data, count * sizeof(Ty) + 1));
    OK(cudaMemcpy(data, values.data(), count * sizeof(Ty), cudaMemcpyHostToDevice));
  }
  Array(const Array &) = delete;
  ~Array() { cudaFree(data); }
  std::vector<Ty> get() const {
    std::vector<Ty> values(count);
    OK(cudaMemcpy(values.data(), data, count * sizeof(Ty), cudaMemcpyDeviceToHost));
    return values;
  }
};
