// One thread that drives devices in turn: kernels in a stream of each, and edges that each copies from its neighbour. It
// prints a sum, and the milliseconds of the first device's stream.
//
//   turns DEVICES COPY     COPY: default, peer, push

#include "check.h"

#include <cstring>

__global__ void step(float *to, const float *from, int count, int work) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float value = from[i];
  for (int round = 0; round < work; round++)
    value = value * 0.5f + from[(i + round) % count] * 0.25f;
  to[i] = value + 1;
}

int main(int, char **arguments) {
  const int devices = atoi(arguments[1]), count = 1 << 11, edge = 256, steps = 8;
  const bool pushes = !strcmp(arguments[2], "push"), is_peer = !strcmp(arguments[2], "peer");
  float *a[8], *b[8], *host = static_cast<float *>(malloc(count * sizeof(float)));
  cudaStream_t streams[8];
  cudaEvent_t done[8], copied[8], begin, end;
  for (int d = 0; d < devices; d++) {
    OK(cudaSetDevice(d));
    OK(cudaMalloc(&a[d], count * sizeof(float)));
    OK(cudaMalloc(&b[d], count * sizeof(float)));
    OK(cudaMemset(a[d], 0, count * sizeof(float)));
    OK(cudaMemset(b[d], 0, count * sizeof(float)));
    OK(cudaStreamCreate(&streams[d]));
    OK(cudaEventCreateWithFlags(&done[d], cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&copied[d], cudaEventDisableTiming));
  }
  for (int d = 0; d < devices; d++) {
    OK(cudaSetDevice(d));
    if (is_peer && devices > 1)
      OK(cudaDeviceEnablePeerAccess((d + 1) % devices, 0));
    // What is made at the first launch is no part of the time.
    step<<<count / 128, 128, 0, streams[d]>>>(a[d], b[d], count, 1);
    OK(cudaDeviceSynchronize());
  }
  OK(cudaSetDevice(0));
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  OK(cudaEventRecord(begin, streams[0]));
  for (int round = 0; round < steps; round++) {
    for (int d = 0; d < devices; d++) {
      OK(cudaSetDevice(d));
      step<<<count / 128, 128, 0, streams[d]>>>(a[d], b[d], count, 2000);
      OK(cudaGetLastError());
      OK(cudaEventRecord(done[d], streams[d]));
    }
    for (int d = 0; d < devices; d++) {
      const int other = (d + 1) % devices, bytes = edge * sizeof(float);
      OK(cudaSetDevice(d));
      OK(cudaStreamWaitEvent(streams[d], done[other], 0));
      OK(cudaMemcpyAsync(b[d] + edge, a[d] + edge, (count - edge) * sizeof(float), cudaMemcpyDeviceToDevice,
                         streams[d]));
      if (pushes)
        OK(cudaMemcpyAsync(b[other], a[d] + count - edge, bytes, cudaMemcpyDefault, streams[d]));
      else if (is_peer)
        OK(cudaMemcpyPeerAsync(b[d], d, a[other] + count - edge, other, bytes, streams[d]));
      else
        OK(cudaMemcpyAsync(b[d], a[other] + count - edge, bytes, cudaMemcpyDefault, streams[d]));
      OK(cudaEventRecord(copied[d], streams[d]));
    }
    for (int d = 0; d < devices; d++)
      for (int other = 0; other < devices; other++)
        if (other != d) {
          OK(cudaSetDevice(d));
          OK(cudaStreamWaitEvent(streams[d], copied[other], 0));
        }
  }
  OK(cudaSetDevice(0));
  OK(cudaEventRecord(end, streams[0]));
  for (int d = 0; d < devices; d++) {
    OK(cudaSetDevice(d));
    OK(cudaStreamSynchronize(streams[d]));
  }
  float milliseconds = 0;
  double sum = 0;
  OK(cudaEventElapsedTime(&milliseconds, begin, end));
  for (int d = 0; d < devices; d++) {
    OK(cudaSetDevice(d));
    OK(cudaMemcpy(host, b[d], count * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++)
      sum += host[i];
  }
  printf("%.9g %.4f\n", sum, milliseconds);
}
