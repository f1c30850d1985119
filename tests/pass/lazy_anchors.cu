// Graphs and arrays exist on one GPU: functions that use them are lazy. Streams and events are handles of
// lazyrt, valid on any GPU: tasks that use them are static.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

__global__ void work(int *x) {}

// CHECK-LABEL: define {{.*}}on_stream
// CHECK: call i64 @mgb_task_begin
// REPORT: task 1 static in on_stream(CUstream_st*)
void on_stream(cudaStream_t stream) {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1, 0, stream>>>(x);
  cudaFree(x);
}

// REPORT: task 2 static in copied_on_stream(CUstream_st*, int*)
void copied_on_stream(cudaStream_t stream, int *host) {
  int *x;
  cudaMalloc(&x, 64);
  cudaMemcpyAsync(x, host, 64, cudaMemcpyHostToDevice, stream);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// REPORT: task 3 static in timed()
void timed() {
  int *x;
  cudaEvent_t start;
  cudaEventCreate(&start);
  cudaMalloc(&x, 64);
  work<<<1, 1>>>(x);
  cudaFree(x);
}

// CHECK-LABEL: define {{.*}}captured
// CHECK-NOT: call {{.*}}@mgb_task_
// REPORT: task 4 lazy in captured(CUstream_st*)
// REPORT: why anchored: cudaStreamBeginCapture ties what this function does to one GPU
void captured(cudaStream_t stream) {
  int *x;
  cudaMalloc(&x, 64);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  work<<<1, 1, 0, stream>>>(x);
  cudaFree(x);
}
