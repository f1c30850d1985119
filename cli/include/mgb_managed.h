/* clang has no __managed__ variables: it says that it ignores the word, and such a variable would be the host's alone. The
   wrappers include this first in CUDA sources, so that a source that has one does not compile into something else. */
#if defined(__clang__) && defined(__CUDA__) && !defined(MGB_MANAGED_H)
#define MGB_MANAGED_H
#undef __managed__
#define __managed__                                                                                                    \
  _Pragma("GCC error \"clang has no __managed__ variables: allocate the memory with cudaMallocManaged and hand its address to kernels, or have NVIDIA's nvcc compile this file (mgb nvcc does so by itself, mgb nvcc --keep-nvcc all files; for real GPUs only)\"")
#endif
