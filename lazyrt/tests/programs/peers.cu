// Devices that reach each other's memory, one case per argument. Every case also holds natively.

#include "devices.h"
#include <atomic>
#include <mgb.h>
#include <thread>

__global__ void gather(unsigned char **from, unsigned char *to, size_t count) {
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    to[i] = from[0][i] + from[1][i];
    from[1][i] = 100;
  }
}

// What CUDA says of peers.
static void peer_codes() {
  int can = -1;
  OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT(can == 1);
  OK(cudaDeviceCanAccessPeer(&can, 0, 0));
  EXPECT(can == 0);
  OK(cudaSetDevice(0));
  IS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  OK(cudaDeviceEnablePeerAccess(1, 0));
  IS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  IS(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT(cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess);
  IS(cudaDeviceEnablePeerAccess(99, 0), cudaErrorInvalidDevice);
  IS(cudaDeviceEnablePeerAccess(-1, 0), cudaErrorInvalidDevice);
  IS(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  OK(cudaSetDevice(1));
  IS(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  OK(cudaDeviceEnablePeerAccess(0, 0));
  OK(cudaSetDevice(0));
  OK(cudaDeviceDisablePeerAccess(1));
  IS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  IS(cudaMemcpyPeer(nullptr, 99, nullptr, 0, 16), cudaErrorInvalidDevice);
  OK(cudaDeviceReset());
  OK(cudaDeviceEnablePeerAccess(1, 0));
  cudaGetLastError();
}

// A kernel reaches another device's objects through pointers in memory, before that device was ever used.
static void peer_kernels() {
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 33 << 20);
    OK(cudaMemset(boxes[d].pointer, 3 + d, boxes[d].bytes));
  }
  OK(cudaSetDevice(0));
  OK(cudaDeviceEnablePeerAccess(1, 0));
  unsigned char *both[] = {boxes[0].pointer, boxes[1].pointer};
  make(boxes[2], sizeof both);
  make(boxes[3], 1 << 20);
  OK(cudaMemcpy(boxes[2].pointer, both, sizeof both, cudaMemcpyHostToDevice));
  for (int round = 0; round < 2; round++) {
    gather<<<1 << 13, 128>>>(reinterpret_cast<unsigned char **>(boxes[2].pointer), boxes[3].pointer, 1 << 20);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    check(boxes[3], 7 + round);
    unsigned char ends[2];
    OK(cudaMemcpy(ends, boxes[1].pointer + (1 << 20) - 1, 2, cudaMemcpyDeviceToHost));
    EXPECT(ends[0] == 100 && ends[1] == 4);
    // Another object of the other device; the next launch finds that one too.
    OK(cudaSetDevice(1));
    make(boxes[4], 5 << 20);
    OK(cudaMemset(boxes[4].pointer, 5, boxes[4].bytes));
    OK(cudaSetDevice(0));
    unsigned char *fresh = boxes[4].pointer;
    OK(cudaMemcpy(boxes[2].pointer + sizeof(void *), &fresh, sizeof fresh, cudaMemcpyHostToDevice));
    gather<<<1 << 13, 128>>>(reinterpret_cast<unsigned char **>(boxes[2].pointer), boxes[3].pointer, 1 << 20);
    OK(cudaDeviceSynchronize());
    check(boxes[3], 8);
    OK(cudaFree(boxes[4].pointer));
    OK(cudaMemcpy(boxes[2].pointer, both, sizeof both, cudaMemcpyHostToDevice));
    OK(cudaMemset(boxes[1].pointer, 5, 1 << 20));
    OK(cudaMemset(boxes[1].pointer + (1 << 20), 4, 1));
  }
}

// Copies between a pool's memory, which is for its own device alone, and another device's objects.
static void pool_copies() {
  unsigned char *pool[2], host[100];
  for (int d = 0; d < 2; d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], 1 << 20);
    OK(cudaMemset(boxes[d].pointer, 1 + d, boxes[d].bytes));
    OK(cudaMallocAsync(&pool[d], 1000, 0));
    OK(cudaMemset(pool[d], 3 + d, 1000));
    OK(cudaDeviceSynchronize());
  }
  for (int d = 0; d < 2; d++) {
    OK(cudaSetDevice(d));
    unsigned char *other = boxes[1 - d].pointer;
    OK(cudaMemcpy(other + 1000, pool[d], 100, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpyAsync(other + 1100, pool[d] + 41, 100, cudaMemcpyDefault, 0));
    OK(cudaMemcpy2D(other + 2001, 500, pool[d], 100, 50, 10, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(pool[d] + 200, other, 100, cudaMemcpyDefault));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(host, pool[d] + 150, 100, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++)
      EXPECT(host[i] == (i < 50 ? 3 + d : 2 - d));
    for (size_t at : {1000, 1100, 2001, 2001 + 9 * 500 - 50}) {
      OK(cudaMemcpy(host, other + at, 100, cudaMemcpyDeviceToHost));
      for (int i = 0; i < 100; i++)
        EXPECT(host[i] == (at < 2000 || (at == 2001 ? i < 50 : i >= 50) ? 3 + d : 2 - d));
    }
    OK(cudaFreeAsync(pool[d], 0));
  }
}

__device__ unsigned char table[256];

// Copies from one device to the other in all ways that there are.
static void peer_copies() {
  const size_t pitch = 512, rows = 100, bytes = 34 << 20;
  for (int d = 0; d < devices(); d++) {
    OK(cudaSetDevice(d));
    make(boxes[d], bytes);
    OK(cudaMemset(boxes[d].pointer, 1 + d, bytes));
  }
  OK(cudaSetDevice(0));
  run(boxes[0], 10);
  OK(cudaMemcpyPeer(boxes[1].pointer, 1, boxes[0].pointer, 0, bytes));
  check(boxes[1], 11);
  run(boxes[0], 1);
  OK(cudaMemcpyPeerAsync(boxes[1].pointer, 1, boxes[0].pointer, 0, bytes, 0));
  OK(cudaDeviceSynchronize());
  check(boxes[1], 12);
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  run(boxes[0], 1, stream);
  OK(cudaMemcpyPeerAsync(boxes[1].pointer, 1, boxes[0].pointer, 0, bytes, stream));
  OK(cudaStreamSynchronize(stream));
  check(boxes[1], 13);
  run(boxes[0], 1, stream);
  OK(cudaMemcpyAsync(boxes[1].pointer, boxes[0].pointer, bytes, cudaMemcpyDefault, stream));
  OK(cudaStreamSynchronize(stream));
  check(boxes[1], 14);
  OK(cudaMemset(boxes[0].pointer, 50, bytes));
  OK(cudaMemcpy(boxes[1].pointer, boxes[0].pointer, bytes, cudaMemcpyDeviceToDevice));
  check(boxes[1], 50);

  // Rows and boxes: every second byte of a row and no byte beside it.
  OK(cudaMemset(boxes[0].pointer, 60, bytes));
  OK(cudaMemcpy2D(boxes[1].pointer, pitch, boxes[0].pointer + 7, 2 * pitch, 100, rows, cudaMemcpyDeviceToDevice));
  std::vector<unsigned char> host(pitch * rows);
  OK(cudaMemcpy(host.data(), boxes[1].pointer, host.size(), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); i++)
    EXPECT(host[i] == (i % pitch < 100 ? 60 : 50));
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(boxes[0].pointer, pitch, pitch, 20);
  box.dstPtr = make_cudaPitchedPtr(boxes[1].pointer, pitch, pitch, 10);
  box.dstPos = make_cudaPos(200, 1, 2);
  box.extent = make_cudaExtent(50, 3, 4);
  box.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3DAsync(&box, stream));
  OK(cudaStreamSynchronize(stream));
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = box.srcPtr;
  peer.dstPtr = box.dstPtr;
  peer.dstPos = make_cudaPos(300, 1, 2);
  peer.srcDevice = 0;
  peer.dstDevice = 1;
  peer.extent = box.extent;
  OK(cudaMemcpy3DPeer(&peer));
  peer.dstDevice = 77;
  IS(cudaMemcpy3DPeer(&peer), cudaErrorInvalidDevice);
  cudaGetLastError();
  OK(cudaMemcpy(host.data(), boxes[1].pointer, host.size(), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); i++) {
    size_t x = i % pitch, y = i / pitch % 10, z = i / pitch / 10;
    bool inside = y >= 1 && y < 4 && z >= 2 && z < 6;
    bool copied = x < 100 || (inside && ((x >= 200 && x < 250) || (x >= 300 && x < 350)));
    EXPECT(host[i] == (copied ? 60 : 50));
  }

  // A variable of one device, memory of the other.
  OK(cudaSetDevice(1));
  OK(cudaMemset(boxes[1].pointer, 70, 256));
  OK(cudaSetDevice(0));
  OK(cudaMemcpyToSymbol(table, boxes[1].pointer, 200, 10, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpyFromSymbol(boxes[1].pointer + 1000, table, 256, 0, cudaMemcpyDeviceToDevice));
  IS(cudaMemcpyToSymbol(table, boxes[1].pointer, 200, 100, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaMemcpy(host.data(), boxes[1].pointer + 1000, 256, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < 256; i++)
    EXPECT(host[i] == (i >= 10 && i < 210 ? 70 : 0));
  OK(cudaStreamDestroy(stream));
}

// Copies between two objects of one device, asked for by the other: they come after what the other was given before, and
// before what it is given later, although nothing of it is in them.
static void peer_order() {
  const size_t bytes = 4 << 20, part = 100;
  OK(cudaSetDevice(0));
  for (int box : {0, 1}) {
    make(boxes[box], bytes);
    OK(cudaMemset(boxes[box].pointer, 0, bytes));
  }
  OK(cudaSetDevice(devices() - 1));
  OK(cudaDeviceEnablePeerAccess(0, 0));
  make(boxes[2], 1 << 20);
  OK(cudaMemset(boxes[2].pointer, 9, boxes[2].bytes));
  OK(cudaDeviceSynchronize());
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  unsigned char *from = boxes[0].pointer + bytes - part, *to = boxes[1].pointer;
  for (int round = 1; round <= 6; round++) {
    run(boxes[0], 1);
    switch (round % 3) {
    case 0:
      OK(cudaMemcpyPeer(to, 0, from, 0, part));
      break;
    case 1:
      OK(cudaMemcpyPeerAsync(to, 0, from, 0, part, stream));
      break;
    default:
      OK(cudaMemcpyPeerAsync(to, 0, from, 0, part, 0));
    }
    run(boxes[0], 1);
    run(boxes[0], -1);
    OK(cudaDeviceSynchronize());
    unsigned char host[part];
    OK(cudaMemcpy(host, to, part, cudaMemcpyDeviceToHost));
    for (unsigned char byte : host)
      EXPECT(byte == round);
  }
  OK(cudaStreamDestroy(stream));
}

// A graph's copies between devices, recorded and made as a node, before and after the other device has more memory.
static void peer_graphs() {
  const size_t bytes = 3 << 20, part = 1000;
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    make(boxes[d], bytes);
    OK(cudaMemset(boxes[d].pointer, d, bytes));
    OK(cudaDeviceSynchronize());
  }
  for (int d = 0; d < 2; d++) {
    OK(cudaSetDevice(d));
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int way = 0; way < 4; way++) {
      unsigned char *to = boxes[0].pointer + bytes - part, *from = boxes[1].pointer + 1;
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      cudaGraphNode_t node;
      if (way < 2)
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      else
        OK(cudaGraphCreate(&graph, 0));
      switch (way) {
      case 0:
        OK(cudaMemcpyAsync(to, from, part, cudaMemcpyDeviceToDevice, stream));
        break;
      case 1:
        OK(cudaMemcpy2DAsync(to, 100, from, 100, 100, part / 100, cudaMemcpyDefault, stream));
        break;
      case 2:
        OK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, to, from, part, cudaMemcpyDeviceToDevice));
        break;
      default:
        cudaGraphNodeParams asked = {};
        asked.type = cudaGraphNodeTypeMemcpy;
        asked.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(from, part, part, 1);
        asked.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(to, part, part, 1);
        asked.memcpy.copyParams.extent = make_cudaExtent(part, 1, 1);
        asked.memcpy.copyParams.kind = cudaMemcpyDefault;
        OK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &asked));
      }
      if (way < 2)
        OK(cudaStreamEndCapture(stream, &graph));
      OK(cudaGraphInstantiate(&executable, graph, 0));
      Box more[2];
      for (int round = 0; round < 2; round++) {
        int value = 10 * round + way;
        OK(cudaSetDevice(1));
        OK(cudaMemset(boxes[1].pointer, value, bytes));
        OK(cudaDeviceSynchronize());
        OK(cudaSetDevice(d));
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
        unsigned char host[part];
        OK(cudaMemcpy(host, to, part, cudaMemcpyDeviceToHost));
        for (unsigned char byte : host)
          EXPECT(byte == value);
        OK(cudaSetDevice(1));
        make(more[round], 3 << 20);
        OK(cudaMemset(more[round].pointer, 1, 3 << 20));
        OK(cudaSetDevice(d));
      }
      for (Box &box : more)
        OK(cudaFree(box.pointer));
      OK(cudaGraphExecDestroy(executable));
      OK(cudaGraphDestroy(graph));
    }
    OK(cudaStreamDestroy(stream));
  }
}

// Graphs of two devices copy what the other has, and one of the two is swapped out between launches: tasks by hand want
// the room.
static void swapped_graphs() {
  const size_t bytes = 36 << 20, part = 1000;
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    make(boxes[d], bytes);
    OK(cudaMemset(boxes[d].pointer, 5 + d, bytes));
    OK(cudaDeviceSynchronize());
  }
  cudaStream_t streams[2];
  cudaGraphExec_t executables[2];
  for (int d = 0; d < 2; d++) {
    cudaGraph_t graph;
    OK(cudaSetDevice(d));
    OK(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(streams[d], cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(boxes[d].pointer, boxes[1 - d].pointer + part, part, cudaMemcpyDeviceToDevice, streams[d]));
    OK(cudaStreamEndCapture(streams[d], &graph));
    OK(cudaGraphInstantiate(&executables[d], graph, 0));
    OK(cudaGraphDestroy(graph));
  }
  static mgb_task_site sites[2] = {{sizeof(mgb_task_site), 1, "peers.cu", "swapped_graphs"},
                                   {sizeof(mgb_task_site), 2, "peers.cu", "swapped_graphs"}};
  mgb_need need = {};
  need.size = sizeof need;
  need.peak_bytes = need.mapped_bytes = bytes;
  for (int round = 0; round < 3; round++) {
    for (int d = 0; d < 2; d++) {
      OK(cudaSetDevice(d));
      OK(cudaMemset(boxes[d].pointer, 0, part));
      OK(cudaDeviceSynchronize());
      OK(cudaGraphLaunch(executables[d], streams[d]));
      OK(cudaStreamSynchronize(streams[d]));
      unsigned char host[part];
      OK(cudaMemcpy(host, boxes[d].pointer, part, cudaMemcpyDeviceToHost));
      for (unsigned char byte : host)
        EXPECT(byte == 6 - d);
    }
    uint64_t tasks[2];
    for (int t = 0; t < 2; t++) {
      mgb_task_use(&sites[t], 0);
      make(boxes[2 + t], bytes);
      tasks[t] = mgb_task_begin(&sites[t], &need);
      mgb_task_use(&sites[t], tasks[t]);
      OK(cudaMemset(boxes[2 + t].pointer, 1, bytes));
    }
    for (int t = 0; t < 2; t++) {
      OK(cudaFree(boxes[2 + t].pointer));
      mgb_task_end(tasks[t]);
    }
  }
  for (int d = 0; d < 2; d++) {
    OK(cudaGraphExecDestroy(executables[d]));
    OK(cudaStreamDestroy(streams[d]));
  }
}

// Copies between devices in a thread's own default stream while that captures: nothing may be waited for then.
static void captured_by_default() {
  const size_t bytes = 3 << 20, part = 1000;
  for (int d = devices(); d-- > 0;) {
    OK(cudaSetDevice(d));
    make(boxes[d], bytes);
    OK(cudaMemset(boxes[d].pointer, 7 + d, bytes));
    OK(cudaDeviceSynchronize());
  }
  for (int d = 0; d < 2; d++) {
    OK(cudaSetDevice(d));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(boxes[0].pointer + d * part, boxes[1].pointer, part, cudaMemcpyDeviceToDevice,
                       cudaStreamPerThread));
    OK(cudaMemcpyAsync(boxes[1].pointer + bytes - part, boxes[0].pointer + bytes - part, part,
                       cudaMemcpyDeviceToDevice, cudaStreamPerThread));
    OK(cudaStreamEndCapture(cudaStreamPerThread, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphLaunch(executable, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    unsigned char host[part];
    OK(cudaMemcpy(host, boxes[0].pointer + d * part, part, cudaMemcpyDeviceToHost));
    for (unsigned char byte : host)
      EXPECT(byte == 8);
    OK(cudaMemcpy(host, boxes[1].pointer + bytes - part, part, cudaMemcpyDeviceToHost));
    for (unsigned char byte : host)
      EXPECT(byte == 7);
    OK(cudaMemset(boxes[1].pointer + bytes - part, 9, part));
    OK(cudaDeviceSynchronize());
    OK(cudaGraphExecDestroy(executable));
  }
}

// The default stream of a device that has done nothing yet waits for an event of another device, whose work waits for
// this thread.
static void unused_waits() {
  static std::atomic<bool> go{false};
  const size_t bytes = 1 << 20;
  cudaStream_t stream;
  cudaEvent_t event;
  OK(cudaSetDevice(0));
  make(boxes[0], bytes);
  OK(cudaMemset(boxes[0].pointer, 1, bytes));
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&event));
  OK(cudaMemsetAsync(boxes[0].pointer, 3, bytes, stream));
  OK(cudaLaunchHostFunc(stream, [](void *) { while (!go) std::this_thread::yield(); }, nullptr));
  OK(cudaEventRecord(event, stream));
  OK(cudaSetDevice(1));
  OK(cudaStreamWaitEvent(cudaStreamLegacy, event, 0));
  go = true;
  make(boxes[1], bytes);
  OK(cudaMemset(boxes[1].pointer, 2, bytes));
  OK(cudaDeviceSynchronize());
  OK(cudaEventQuery(event));
  unsigned char host[2];
  OK(cudaMemcpy(host, boxes[0].pointer, 1, cudaMemcpyDeviceToHost));
  OK(cudaMemcpy(host + 1, boxes[1].pointer, 1, cudaMemcpyDeviceToHost));
  EXPECT(host[0] == 3 && host[1] == 2);
}

int main(int argc, char **argv) {
  const Case cases[] = {
      CASE(peer_codes), CASE(peer_kernels), CASE(peer_copies), CASE(peer_order), CASE(peer_graphs), CASE(swapped_graphs),
      CASE(pool_copies), CASE(captured_by_default), CASE(unused_waits),
  };
  return play(argc, argv, cases);
}
