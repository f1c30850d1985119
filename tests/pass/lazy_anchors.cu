// Streams, events and device variables belong to one GPU: what uses them is lazy.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}

// CHECK-NOT: @mgb_task_

// REPORT: task 1 lazy in on_stream(CUstream_st*)
// REPORT: why anchored: work(int*) runs on a stream, which belongs to one GPU (:[[@LINE+4]])
void on_stream(cudaStream_t stream) {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1, 0, stream>>>(x);
  cudaFree(x);
}

// REPORT: task 2 lazy in copied_on_stream(CUstream_st*, int*)
// REPORT: why anchored: cudaMemcpyAsync runs on a stream
void copied_on_stream(cudaStream_t stream, int *host) {
  int *x;
  cudaMalloc(&x, 64);
  cudaMemcpyAsync(x, host, 64, cudaMemcpyHostToDevice, stream);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// REPORT: task 3 lazy in timed()
// REPORT: why anchored: cudaEventCreate ties what this function does to one GPU
void timed() {
  int *x;
  cudaEvent_t start;
  cudaEventCreate(&start);
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}
