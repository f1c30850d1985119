// Launches of every form, over objects that the launch names and over those it reaches through pointers in memory.
#pragma once

#include "copies.h"

// The three ways to launch a kernel; which one is decided when the op is built.
template <class... P, class... A>
std::function<void(cudaStream_t)> Actor::launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                                A... arguments) {
  size_t way = draw.below(4);
  return [=](cudaStream_t stream) {
    std::tuple<P...> values(arguments...);
    std::apply(
        [&](auto &...each) {
          void *pointers[] = {&each...};
          if (way == 0) {
            OK(cudaLaunchKernel(reinterpret_cast<void *>(kernel), grid, block, pointers, shared, stream));
          } else if (way == 1) {
            cudaLaunchConfig_t config = {};
            config.gridDim = grid;
            config.blockDim = block;
            config.dynamicSmemBytes = shared;
            config.stream = stream;
            OK(cudaLaunchKernelExC(&config, reinterpret_cast<void *>(kernel), pointers));
          } else {
            kernel<<<grid, block, shared, stream>>>(each...);
            OK(cudaGetLastError());
          }
        },
        values);
  };
}

inline bool Actor::build_launch(int device, Op &op) {
  auto reached = [&](Object &object) { return reaches(device, object) && !is_pageable(object); };
  Object *to = pick([&](Object &object) { return reached(object) && !object.read_only; });
  if (!to)
    return false;
  Range bytes = range(*to, draw.one_in(50) ? 2000000 : 20000);
  dim3 grid(1 + unsigned(draw.below(6))), block(32u << draw.below(3));
  int value = 1 + int(draw.below(250));
  size_t which = draw.below(7);
  Object *from = which >= 3 && which <= 5 ? pick(reached) : nullptr;
  Range source;
  if (!from && which >= 3 && which <= 5)
    return false;
  if (from) {
    source = range(*from, bytes.count);
    if (which != 5)
      bytes.count = source.count;
    if (!apart(writes(bytes), reads(source)))
      return false;
  }
  if (which == 5) { // a counter: four aligned bytes
    bytes.count = 4;
    if (size_t(bytes.address()) % 4 != 0 || bytes.at % to->width + 4 > to->width ||
        !apart(writes(bytes), reads(source)))
      return false;
  }
  op.touches = {writes(bytes)};
  if (from)
    op.touches.push_back(reads(source));
  unsigned char *at = bytes.address();
  size_t count = bytes.count;
  say("launch kernel %zu over object %d +%zu %zu, object %d +%zu", which, to->id, bytes.at, count, from ? from->id : 0,
      source.at);
  switch (which) {
  case 0:
    op.issue = launch(add, grid, block, 0, at, count, value);
    op.model = [=] {
      for (size_t i = 0; i < count; i++)
        bytes.model()[i] += (unsigned char)value;
    };
    return true;
  case 1:
    op.issue = launch(fill, grid, block, 0, at, count, value);
    op.model = [=] {
      for (size_t i = 0; i < count; i++)
        bytes.model()[i] = (unsigned char)(value + i * 7);
    };
    return true;
  case 2:
    op.issue = launch(mix, grid, block, 0, at, count, value);
    op.model = [=] {
      for (size_t i = 0; i < count; i++)
        bytes.model()[i] = mixed(bytes.model()[i], i, value);
    };
    return true;
  case 3:
    op.issue = launch(combine, grid, block, 0, at, source.address(), count);
    op.model = [=] {
      for (size_t i = 0; i < count; i++)
        bytes.model()[i] = (unsigned char)(bytes.model()[i] * 3 + source.model()[i]);
    };
    return true;
  case 4: {
    Pair pair = {char(value), at, source.address(), count};
    op.issue = launch(reversed, grid, block, 0, pair);
    op.model = [=] {
      for (size_t i = 0; i < count; i++)
        bytes.model()[i] = (unsigned char)(source.model()[count - 1 - i] ^ pair.tag);
    };
    return true;
  }
  case 5:
    op.issue = launch(count_in, grid, block, 0, reinterpret_cast<unsigned *>(at), source.address(), source.count);
    op.model = [=] {
      unsigned total = 0;
      memcpy(&total, bytes.model(), 4);
      for (size_t i = 0; i < source.count; i++)
        total += source.model()[i];
      memcpy(bytes.model(), &total, 4);
    };
    return true;
  default: {
    size_t blocks = std::min<size_t>(count / 64, 60);
    op.touches[0].to = op.touches[0].from + std::max<size_t>(blocks * 64, 1);
    op.issue = launch(flip, grid, dim3(64), 64, at, blocks);
    op.model = [=] {
      for (size_t b = 0; b < blocks; b++)
        std::reverse(bytes.model() + b * 64, bytes.model() + b * 64 + 64);
    };
    return true;
  }
  }
}

inline bool Actor::build_cooperative(int device, Op &op) {
  auto suits = [&](Object &object) { return object.device == device && !object.is_host() && !object.read_only; };
  Object *one = pick(suits), *other = pick(suits);
  if (!one || !other || one == other)
    return false;
  Range bytes = range(*one, 3000), spare = range(*other, 3000);
  bytes.count = spare.count = std::min(bytes.count, spare.count);
  int value = int(draw.below(100));
  dim3 grid(1 + unsigned(draw.below(4))), block(64);
  say("launch together over object %d +%zu and object %d +%zu, %zu bytes", one->id, bytes.at, other->id, spare.at,
      bytes.count);
  op.touches = {writes(bytes), writes(spare)};
  unsigned char *first = bytes.address(), *second = spare.address();
  size_t count = bytes.count;
  op.issue = [=](cudaStream_t stream) {
    unsigned char *to = first, *by = second;
    size_t number = count;
    int add = value;
    void *arguments[] = {&to, &by, &number, &add};
    OK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(turn), grid, block, arguments, 0, stream));
  };
  op.model = [=] {
    for (size_t i = 0; i < count; i++)
      spare.model()[i] = (unsigned char)(bytes.model()[i] + value);
    for (size_t i = 0; i < count; i++)
      bytes.model()[i] = spare.model()[(i + count / 2) % count];
  };
  return true;
}

inline void Actor::step_launch() {
  int where = device();
  Op op;
  if (has(kCooperative) && draw.one_in(8) ? build_cooperative(where, op) : build_launch(where, op))
    run(lane(where), op);
  else
    step_allocate();
}
