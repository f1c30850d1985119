// Objects that hold the addresses of others, and device variables.
#pragma once

#include "launches.h"

// Puts a pointer into an object: by a kernel, by a copy, or by exchanging two that are there.
inline void Actor::step_pointer() {
  int where = device();
  auto suits = [&](Object &object) {
    return reaches(where, object) && !is_pageable(object) && !object.read_only && object.width >= 8;
  };
  Object *holder = pick(suits), *to = pick(suits);
  if (!holder || !to)
    return step_allocate();
  // Anywhere that is aligned.
  Range cell = range(*holder, 8);
  size_t column = cell.at % holder->width;
  size_t skew = (8 - size_t(cell.address()) % 8) % 8;
  if (column + skew + 8 > holder->width)
    cell.at -= column, skew = (8 - size_t(cell.address()) % 8) % 8;
  cell.at += skew;
  cell.count = 8;
  if (cell.at % holder->width + 8 > holder->width)
    return;
  std::vector<Range> others;
  for (auto &[at, target] : holder->cells)
    if (at >= cell.at + 8 || at + 8 <= cell.at)
      others.push_back({holder, at, 8});
  Target target{to, range(*to, 1).at};
  Op op;
  auto cells = [](const Range &range) { return reinterpret_cast<unsigned char **>(range.address()); };
  if (!others.empty() && holder->cells.count(cell.at) != 0 && draw.one_in(2)) {
    Range other = draw.of(others);
    say("exchange the pointers at object %d +%zu and +%zu", holder->id, cell.at, other.at);
    std::pair<Target, Target> both = {holder->cells.at(cell.at), holder->cells.at(other.at)};
    op.touches = {writes(cell), writes(other)};
    op.issue = launch(exchange, dim3(1), dim3(32), 0, cells(cell), cells(other));
    op.model = [=] {
      std::swap_ranges(cell.model(), cell.model() + 8, other.model());
      holder->cells[cell.at] = both.second;
      holder->cells[other.at] = both.first;
    };
    return run(lane(where), op);
  }
  // Some lead to another pointer.
  if (!to->cells.empty() && draw.one_in(2)) {
    auto next = to->cells.begin();
    std::advance(next, long(draw.below(to->cells.size())));
    target.at = next->first;
  }
  unsigned char *address = to->address(target.at);
  bool by_kernel = draw.one_in(2);
  say("object %d +%zu points to object %d +%zu%s", holder->id, cell.at, to->id, target.at,
      by_kernel ? ", by a kernel" : "");
  op.touches = {writes(cell)};
  op.model = [=] {
    memcpy(cell.model(), &address, 8);
    holder->cells[cell.at] = target;
  };
  if (by_kernel)
    op.issue = launch(point, dim3(1), dim3(32), 0, cells(cell), address);
  else
    op.issue = [=](cudaStream_t stream) {
      unsigned char *kept = address;
      OK(cudaMemcpyAsync(cell.address(), &kept, 8, cudaMemcpyDefault, stream));
      kept = nullptr;
    };
  if (!by_kernel && (holder->is_host() || holder->kind == Kind::Managed)) {
    arrange_host(op.touches);
    memcpy(cell.address(), &address, 8);
    return apply(op);
  }
  run(lane(where), op);
}

// A kernel follows pointers and changes what they lead to.
inline void Actor::step_chase() {
  int where = device();
  std::vector<Range> starts;
  for (auto &object : objects)
    if (reaches(where, *object) && !is_pageable(*object))
      for (auto &[at, target] : object->cells)
        starts.push_back({object.get(), at, 8});
  if (starts.empty())
    return step_pointer();
  Range start = draw.of(starts);
  Target at = {start.object, start.at};
  Op op;
  int depth = 0;
  int most = 1 + int(draw.below(5));
  for (; depth < most; depth++) {
    auto cell = at.object->cells.find(at.at);
    if (cell == at.object->cells.end())
      break;
    op.touches.push_back({at.object, at.at, at.at + 8, false});
    at = cell->second;
    if (!reaches(where, *at.object) || is_pageable(*at.object))
      return;
  }
  if (at.object->read_only)
    return;
  size_t column = at.at % at.object->width;
  Range bytes = {at.object, at.at, 1 + draw.below(std::min<size_t>(at.object->width - column, 5000))};
  for (const Touch &touch : op.touches)
    if (!apart(writes(bytes), touch))
      return;
  if (!at.object->defined)
    define(*at.object);
  int value = 1 + int(draw.below(200));
  say("launch through %d pointers from object %d +%zu over object %d +%zu %zu", depth, start.object->id, start.at,
      at.object->id, bytes.at, bytes.count);
  op.touches.push_back(writes(bytes));
  op.issue = launch(add_behind, dim3(2), dim3(64), 0, reinterpret_cast<unsigned char **>(start.address()), depth,
                    bytes.count, value);
  op.model = [=] {
    for (size_t i = 0; i < bytes.count; i++)
      bytes.model()[i] += (unsigned char)value;
  };
  run(lane(where), op);
}

// Kernels that use device variables, and the one that holds a pointer.
inline void Actor::step_globals() {
  int where = device();
  Object *share[3] = {};
  for (auto &symbol : symbols)
    if (symbol->device == where)
      share[symbol->id % 3] = symbol.get(); // see Actor::Actor
  Object &bytes_of = *share[0], &constants = *share[1], &pointer = *share[2];
  auto suits = [&](Object &object) {
    return object.device == where && !object.is_host() && !object.read_only && &object != &bytes_of;
  };
  Object *object = pick(suits);
  if (!object)
    return step_allocate();
  for (Object *each : {&bytes_of, &constants})
    if (!each->defined)
      define(*each);
  Range bytes = range(*object, 4000);
  Op op;
  switch (draw.below(3)) {
  case 0: {
    say("launch with device variables over object %d +%zu %zu", object->id, bytes.at, bytes.count);
    op.touches = {writes(bytes), {&bytes_of, 0, kGlobalBytes, false}, {&constants, 0, kConstantBytes, false}};
    op.issue = launch(add_globals, dim3(2), dim3(64), 0, bytes.address(), bytes.count, index);
    op.model = [=, &bytes_of, &constants] {
      for (size_t i = 0; i < bytes.count; i++)
        bytes.model()[i] += bytes_of.model[i % kGlobalBytes] ^ constants.model[i % kConstantBytes];
    };
    return run(lane(where), op);
  }
  case 1: {
    bytes.count = std::min(bytes.count, kGlobalBytes);
    say("launch over a device variable, by object %d +%zu %zu", object->id, bytes.at, bytes.count);
    op.touches = {{&bytes_of, 0, bytes.count, true}, reads(bytes)};
    op.issue = launch(to_globals, dim3(2), dim3(64), 0, bytes.address(), bytes.count, index);
    op.model = [=, &bytes_of] {
      for (size_t i = 0; i < bytes.count; i++)
        bytes_of.model[i] = mixed(bytes_of.model[i], i, bytes.model()[i]);
    };
    return run(lane(where), op);
  }
  default:
    if (pointer.cells.empty() || draw.one_in(3)) {
      say("a device variable points to object %d +%zu", object->id, bytes.at);
      op.touches = {{&pointer, 0, 8, true}};
      unsigned char *address = bytes.address();
      op.issue = [=](cudaStream_t) {
        OK(cudaMemcpyToSymbol(global_pointer, &address, 8, sizeof(void *) * size_t(index), cudaMemcpyHostToDevice));
      };
      op.model = [=, &pointer] {
        memcpy(pointer.model.data(), &address, 8);
        pointer.cells[0] = {object, bytes.at};
        pointer.defined = true;
      };
      return run(default_lane(where), op);
    }
    Target target = pointer.cells.at(0);
    size_t column = target.at % target.object->width;
    Range behind = {target.object, target.at, 1 + draw.below(std::min<size_t>(target.object->width - column, 4000))};
    int value = 1 + int(draw.below(99));
    say("launch through a device variable over object %d +%zu %zu", target.object->id, behind.at, behind.count);
    op.touches = {writes(behind), {&pointer, 0, 8, false}};
    op.issue = launch(add_behind_global, dim3(2), dim3(64), 0, index, behind.count, value);
    op.model = [=] {
      for (size_t i = 0; i < behind.count; i++)
        behind.model()[i] += (unsigned char)value;
    };
    run(lane(where), op);
  }
}
