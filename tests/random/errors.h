// Calls that fail, and edges at which they just do not. What they answer is no decision's business: it is kept as a sum
// that is printed, and must be natively what it is under MGB.
#pragma once

#include "graphs.h"

inline void Actor::step_error() {
  int where = device();
  use(where);
  Object *object = pick([&](Object &object) {
    return object.kind == Kind::Device && object.device == where && object.is_flat() && !object.read_only;
  });
  unsigned char bytes[64] = {}, *host = bytes;
  void *out = &out;
  size_t which = draw.below(17);
  say("an error, number %zu, object %d", which, object ? object->id : 0);
  switch (which) {
  case 0:
    // Behind 256 bytes another object may begin.
    if (object)
      answer(cudaFree(object->base + 1 + draw.below(255)));
    break;
  case 1:
    answer(cudaFree(host));
    answer(cudaFreeHost(host));
    answer(cudaHostUnregister(host));
    break;
  case 2:
    answer(cudaMalloc(&out, size_t(1) << (44 + draw.below(19))));
    answer(cudaMalloc(&out, ~size_t(0)));
    break;
  case 3:
    if (object) {
      size_t past = 1 + draw.below(400);
      std::vector<unsigned char> to(object->size() + past);
      answer(cudaMemcpy(to.data(), object->base, to.size(), cudaMemcpyDeviceToHost));
      answer(cudaMemcpy(to.data(), object->base + object->size() - 1, past + 1, cudaMemcpyDefault));
    }
    break;
  case 4:
    if (object)
      answer(cudaMemset(object->base, 1, object->size() + (size_t(1) << 42)));
    break;
  case 5:
    answer(cudaMemcpy(object ? object->base : host, host, 10, cudaMemcpyKind(17)));
    break;
  case 6:
    answer(cudaSetDevice(99));
    answer(cudaSetDevice(-1));
    answer(cudaGetDevice(&where));
    note(uint64_t(where));
    break;
  case 7:
    if (object) {
      add<<<1, 2048>>>(object->base, 1, 1);
      answer(cudaGetLastError());
      add<<<0, 32>>>(object->base, 1, 1);
      answer(cudaPeekAtLastError());
      add<<<1, 32, size_t(1) << 30>>>(object->base, 1, 1);
      answer(cudaGetLastError());
    }
    break;
  case 8:
    answer(cudaMemcpy(object ? object->base : host, nullptr, 10, cudaMemcpyHostToDevice));
    answer(cudaMalloc(static_cast<void **>(nullptr), 10));
    break;
  case 9:
    if (object) {
      std::vector<unsigned char> rows(400);
      answer(cudaMemcpy2D(rows.data(), 10, object->base, 40, 20, 1, cudaMemcpyDeviceToHost));
      answer(cudaMemset2D(object->base, 10, 0, 20, 2));
    }
    break;
  case 10:
    answer(cudaMalloc(&out, 0));
    note(uint64_t(out == nullptr));
    answer(cudaFree(nullptr));
    answer(cudaFreeHost(nullptr));
    if (object) {
      answer(cudaMemcpy(object->base, host, 0, cudaMemcpyHostToDevice));
      answer(cudaMemset(object->base, 1, 0));
      answer(cudaMemcpy(host, object->base + object->size() - 1, 0, cudaMemcpyDeviceToHost));
    }
    break;
  case 11: {
    cudaDeviceProp properties;
    answer(cudaGetDeviceProperties(&properties, 99));
    answer(cudaDeviceEnablePeerAccess(where, 0));
    break;
  }
  case 12: {
    cudaEvent_t one, other;
    answer(cudaEventCreate(&one));
    answer(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
    float time = 0;
    answer(cudaEventElapsedTime(&time, one, one));
    answer(cudaEventQuery(one));
    answer(cudaEventElapsedTime(&time, one, other));
    answer(cudaEventDestroy(one));
    answer(cudaEventDestroy(other));
    break;
  }
  case 13:
    answer(cudaMemcpyToSymbol(global_bytes, host, 10, sizeof global_bytes - 9));
    answer(cudaMemcpyFromSymbol(host, global_constants, 10, sizeof global_constants + 100));
    break;
  case 14:
    // Another thread may be given the address meanwhile.
    if (common.alone) {
      answer(cudaMalloc(&out, 1 + draw.below(5000000)));
      answer(cudaFree(out));
      answer(cudaFree(out));
    }
    break;
  case 15: {
    void *twice = pages(4096);
    answer(cudaHostRegister(twice, 4096, 0));
    answer(cudaHostRegister(twice, 4096, 0));
    answer(cudaHostUnregister(twice));
    answer(cudaHostUnregister(twice));
    munmap(twice, 4096);
    break;
  }
  default: {
    size_t pitch = 1;
    answer(cudaMallocManaged(&out, 0));
    answer(cudaMallocPitch(&out, &pitch, size_t(1) << 50, 10));
    answer(cudaMallocPitch(&out, nullptr, 10, 10));
    break;
  }
  }
  answer(cudaPeekAtLastError());
  if (object && draw.one_in(2)) {
    // What succeeds does not take the last error away.
    OK(cudaMemcpy(host, object->base, 1, cudaMemcpyDeviceToHost));
    order.begin(default_lane(where));
  }
  answer(cudaGetLastError());
  answer(cudaGetLastError());
}

// All that the device has of this process ends.
inline void Actor::step_reset() {
  int where = device();
  say("reset device %d", where);
  for (size_t i = graphs.size(); i-- > 0;)
    if (graphs[i]->device == where)
      drop_graph(i);
  for (size_t i = objects.size(); i-- > 0;) {
    Kind kind = objects[i]->kind;
    if (kind == Kind::Pinned || kind == Kind::Registered || kind == Kind::Pool ||
        (objects[i]->device == where && kind == Kind::Managed))
      release(i);
    else if (objects[i]->device == where && kind == Kind::Device && draw.one_in(2))
      compare(*objects[i]);
  }
  settle();
  say("reset device %d", where);
  use(where);
  OK(cudaDeviceReset());
  was_reset(where);
}

inline void Actor::was_reset(int device) {
  for (size_t i = objects.size(); i-- > 0;)
    if (objects[i]->device == device && (objects[i]->kind == Kind::Device || objects[i]->kind == Kind::Managed)) {
      drop_references(*objects[i]);
      objects[i] = std::move(objects.back());
      objects.pop_back();
    }
  for (auto &symbol : symbols)
    if (symbol->device == device) {
      // As in the program's image.
      symbol->base = nullptr;
      symbol->cells.clear();
      symbol->accesses.clear();
      std::fill(symbol->model.begin(), symbol->model.end(), (unsigned char)0);
      symbol->defined = true;
    }
  for (auto &lane : order.lanes)
    if (lane->device == device && (lane->kind == LaneKind::Blocking || lane->kind == LaneKind::NonBlocking))
      lane->alive = false;
  marks.erase(std::remove_if(marks.begin(), marks.end(), [&](auto &mark) { return mark->device == device; }),
              marks.end());
}
