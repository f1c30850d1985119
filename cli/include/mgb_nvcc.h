/* What nvcc's CUDA has and clang's lacks, for sources that were written for nvcc: `mgb nvcc` includes it first in CUDA
   sources. Nothing here takes the place of what a source defines by itself.

   - min and max in host code, in the global namespace, of numbers of two types too. clang has them in device code only.
   - The atomic loads and stores of CUDA 12.8 (__nv_atomic_load_n and others), in device code.
   - Stores with a hint for caches (__stcs, __stcg, __stwb, __stwt), in device code, without the hint.
   - The headers of C that nvcc includes: isfinite and its like in host code, clock and time. */
#ifndef MGB_NVCC_H
#define MGB_NVCC_H

#if defined(__clang__) && defined(__CUDA__) && defined(__cplusplus)

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Templates, so that any function of the source is preferred, and std::min and std::max where both are seen. */
namespace mgb_nvcc {
/* What `c ? a : b` is of two numbers: nvcc's overloads return the same. */
template <class A, class B, bool Are = __is_arithmetic(A) && __is_arithmetic(B)> struct both {};
template <class A, class B> struct both<A, B, true> { typedef decltype(true ? A() : B()) type; };
/* What is not to be found from an argument. */
template <class A> struct same { typedef A type; };
} // namespace mgb_nvcc

template <class A, class B>
static inline __attribute__((host)) typename mgb_nvcc::both<A, B>::type min(A a, B b) {
  typedef typename mgb_nvcc::both<A, B>::type type;
  type x = (type)a, y = (type)b;
  /* Of a number and no number, the number. */
  return y != y || x < y ? x : y;
}

template <class A, class B>
static inline __attribute__((host)) typename mgb_nvcc::both<A, B>::type max(A a, B b) {
  typedef typename mgb_nvcc::both<A, B>::type type;
  type x = (type)a, y = (type)b;
  return y != y || x > y ? x : y;
}

/* As nvcc's, they are done where they stand. */
#define MGB_NVCC_STORE(name)                                                                                           \
  template <class Type>                                                                                                \
  static inline __attribute__((device)) void name(Type *to, typename mgb_nvcc::same<Type>::type value) {               \
    *to = value;                                                                                                       \
    __asm__ volatile("" ::: "memory");                                                                                 \
  }
MGB_NVCC_STORE(__stcs)
MGB_NVCC_STORE(__stcg)
MGB_NVCC_STORE(__stwb)
MGB_NVCC_STORE(__stwt)
#undef MGB_NVCC_STORE

/* nvcc's orders are C's. What reads and writes at once is left to nvcc: clang has no system-wide form of it. */
enum { __NV_ATOMIC_RELAXED, __NV_ATOMIC_CONSUME, __NV_ATOMIC_ACQUIRE, __NV_ATOMIC_RELEASE, __NV_ATOMIC_ACQ_REL,
       __NV_ATOMIC_SEQ_CST };
enum { __NV_THREAD_SCOPE_THREAD = __MEMORY_SCOPE_SINGLE, __NV_THREAD_SCOPE_BLOCK = __MEMORY_SCOPE_WRKGRP,
       __NV_THREAD_SCOPE_CLUSTER = __MEMORY_SCOPE_DEVICE, __NV_THREAD_SCOPE_DEVICE = __MEMORY_SCOPE_DEVICE,
       __NV_THREAD_SCOPE_SYSTEM = __MEMORY_SCOPE_SYSTEM };

template <class Type>
static inline __attribute__((device)) Type __nv_atomic_load_n(const volatile Type *from, int order,
                                                              int scope = __NV_THREAD_SCOPE_SYSTEM) {
  return __scoped_atomic_load_n(from, order, scope);
}

template <class Type>
static inline __attribute__((device)) void __nv_atomic_load(const volatile Type *from, Type *to, int order,
                                                            int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __scoped_atomic_load(from, to, order, scope);
}

template <class Type, class Value>
static inline __attribute__((device)) void __nv_atomic_store_n(volatile Type *to, Value value, int order,
                                                               int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __scoped_atomic_store_n(to, (Type)value, order, scope);
}

template <class Type>
static inline __attribute__((device)) void __nv_atomic_store(volatile Type *to, Type *value, int order,
                                                             int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __scoped_atomic_store(to, value, order, scope);
}

#endif
#endif
