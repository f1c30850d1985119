// A thread's life: from its default streams to the last comparison.
#pragma once

#include "errors.h"

inline Actor::Actor(const Options &options, const Common &common, unsigned features, uint64_t seed, int index)
    : draw(seed), options(options), common(common), features(features), index(index) {
  bool zero = draw.one_in(2);
  for (int device = 0; device < common.devices; device++) {
    order.add(LaneKind::Legacy, device, kPerThreadDefault || !zero ? cudaStreamLegacy : nullptr);
    if (kPerThreadDefault || has(kPerThread))
      order.add(LaneKind::PerThread, device, kPerThreadDefault && zero ? nullptr : cudaStreamPerThread);
    // Their numbers say which is which (see step_globals).
    const std::pair<const void *, size_t> variables[] = {
        {global_bytes, kGlobalBytes}, {global_constants, kConstantBytes}, {global_pointer, sizeof(void *)}};
    for (auto [symbol, bytes] : variables) {
      auto object = std::make_unique<Object>();
      object->id = 900 + int(symbols.size());
      object->kind = Kind::Symbol;
      object->device = device;
      object->symbol = symbol;
      object->width = object->pitch = bytes;
      object->offset = bytes * size_t(index);
      object->model.resize(bytes);
      symbols.push_back(std::move(object));
    }
  }
  next_id = index * 1000 + 1;
}

inline void Actor::step() {
  struct Choice {
    bool possible;
    unsigned weight;
    void (Actor::*step)();
  };
  const Choice choices[] = {
      {true, 10, &Actor::step_allocate},
      {true, 5, &Actor::step_release},
      {true, 6, &Actor::step_compare},
      {has(kPinned) || has(kRegistered) || has(kManaged), 4, &Actor::step_touch_by_host},
      {true, 14, &Actor::step_copy},
      {true, 10, &Actor::step_copy_at_once},
      {true, 8, &Actor::step_set},
      {true, 20, &Actor::step_launch},
      {has(kPointers), 8, &Actor::step_pointer},
      {has(kPointers), 8, &Actor::step_chase},
      {has(kGlobals), 5, &Actor::step_globals},
      {has(kGlobals), 5, &Actor::step_symbol},
      {has(kStreams), 5, &Actor::step_streams},
      {has(kEvents), 5, &Actor::step_events},
      {has(kCallbacks), 3, &Actor::step_callback},
      {true, 2, &Actor::step_synchronize},
      {has(kGraphs) && has(kStreams), 3, &Actor::step_capture},
      {has(kGraphs) && has(kStreams), 3, &Actor::step_graph},
      {has(kErrors), 3, &Actor::step_error},
      {has(kResets) && common.alone && !common.peers && draw.one_in(30), 20, &Actor::step_reset},
  };
  unsigned all = 0;
  for (const Choice &choice : choices)
    all += choice.possible ? choice.weight : 0;
  size_t at = draw.below(all);
  for (const Choice &choice : choices) {
    unsigned weight = choice.possible ? choice.weight : 0;
    if (at < weight)
      return (this->*choice.step)();
    at -= weight;
  }
}

inline void Actor::steps(size_t count) {
  // The thread of the program is another one in each phase.
  current = -1;
  for (size_t i = 0; i < count; i++) {
    place.step++;
    step();
  }
}

inline void Actor::finish() {
  current = -1;
  place.step++;
  say("the end");
  for (auto *group : {&symbols, &objects})
    for (auto &object : *group)
      compare(*object);
  while (!graphs.empty())
    drop_graph(graphs.size() - 1);
  while (!objects.empty())
    release(objects.size() - 1);
  settle();
  for (auto &lane : order.lanes)
    if (lane->alive && (lane->kind == LaneKind::Blocking || lane->kind == LaneKind::NonBlocking))
      OK(cudaStreamDestroy(lane->handle));
  for (auto &mark : marks)
    OK(cudaEventDestroy(mark->event));
  marks.clear();
  for (auto &[counter, number] : counted)
    if (counter && *counter != number)
      fail("%u host functions were called, not %u", counter->load(), number);
}

inline const Object *Actor::offer() {
  std::vector<Object *> all;
  for (auto &object : objects)
    if (object->defined && object->size() < 100000 && object->kind == Kind::Device)
      all.push_back(object.get());
  if (all.empty())
    return nullptr;
  Object *object = draw.of(all);
  drop_references(*object);
  object->read_only = true;
  return object;
}

inline std::unique_ptr<Object> Actor::give_away() {
  if (objects.empty())
    return nullptr;
  size_t at = draw.below(objects.size());
  drop_references(*objects[at]);
  std::unique_ptr<Object> object = std::move(objects[at]);
  objects[at] = std::move(objects.back());
  objects.pop_back();
  object->cells.clear();
  object->accesses.clear();
  return object;
}

inline void Actor::share(const Object &object) {
  auto view = std::make_unique<Object>(object);
  view->read_only = true;
  view->cells.clear();
  view->accesses.clear();
  views.push_back(std::move(view));
}

inline void Actor::unshare() {
  for (auto &view : views)
    drop_references(*view);
  views.clear();
  for (auto &object : objects)
    object->read_only = false;
}
