// Copies and sets: every direction, form and stream.
#pragma once

#include "memory.h"

inline cudaMemcpyKind Actor::direction(const Object &to, const Object &from) {
  if (draw.one_in(3) || to.kind == Kind::Managed || from.kind == Kind::Managed)
    return cudaMemcpyDefault;
  if (to.is_host())
    return from.is_host() ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
  return from.is_host() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

// The same object only where the bytes lie apart.
static inline bool apart(const Touch &one, const Touch &other) {
  return one.object != other.object || one.to <= other.from || other.to <= one.from;
}

static inline bool is_pageable(const Object &object) { return object.kind == Kind::Pageable; }

// Pointers travel with the bytes.
static inline void carry_cells(const Range &to, const Range &from) {
  std::vector<std::pair<size_t, Target>> carried;
  for (auto cell = from.object->cells.lower_bound(from.at);
       cell != from.object->cells.end() && cell->first + 8 <= from.at + from.count; ++cell)
    carried.push_back({to.at + (cell->first - from.at), cell->second});
  for (auto &[at, target] : carried)
    if (size_t(to.object->address(at)) % 8 == 0 && !to.object->is_host())
      to.object->cells[at] = target;
}

// Other devices may copy all but the memory of pools.
inline bool Actor::across(const Object &object) {
  return has(kAcross) && object.kind != Kind::Pool && draw.one_in(6);
}

inline bool Actor::build_copy(int device, bool captured, Op &op) {
  auto suits = [&](Object &object) {
    bool here = object.device == device || object.is_host() || object.kind == Kind::Managed || across(object);
    return captured ? here && object.defined && !is_pageable(object) && object.kind != Kind::Managed : here;
  };
  Object *to = pick([&](Object &object) { return suits(object) && !object.read_only; });
  Object *from = pick(suits);
  if (!to || !from || (to->is_host() && from->is_host()))
    return false;
  Range target = range(*to, size_t(-1)), source = range(*from, size_t(-1));
  target.count = source.count = std::min(target.count, source.count);
  if (!apart(writes(target), reads(source)))
    return false;
  cudaMemcpyKind kind = direction(*to, *from);
  // A stream does not record copies that name their devices (cudaErrorStreamCaptureUnsupported).
  bool peers = to->kind == Kind::Device && from->kind == Kind::Device && draw.one_in(3) && !captured;
  say("copy object %d +%zu <- object %d +%zu, %zu bytes, kind %d%s", to->id, target.at, from->id, source.at,
      target.count, int(kind), peers ? ", as peers" : "");
  op.touches = {writes(target), reads(source)};
  op.touches[1].at_call = is_pageable(*from);
  op.touches[1].only_now = is_pageable(*from) && to->kind != Kind::Managed;
  op.touches[1].told = from->is_locked() && to->kind != Kind::Managed && !captured;
  op.host_waits = is_pageable(*to);
  bool spoil = op.touches[1].only_now && !from->read_only;
  op.issue = [=](cudaStream_t stream) {
    // It has no form for default streams per thread: zero is the legacy one to it.
    cudaStream_t named = kPerThreadDefault && !stream ? cudaStreamPerThread : stream;
    if (peers)
      OK(cudaMemcpyPeerAsync(target.address(), to->device, source.address(), from->device, target.count, named));
    else
      OK(cudaMemcpyAsync(target.address(), source.address(), target.count, kind, stream));
    // The bytes are CUDA's by now: what becomes of these is nobody's business.
    for (size_t i = 0; spoil && i < source.count; i += 61)
      source.address()[i] ^= 0x5a;
  };
  op.model = [=] {
    memcpy(target.model(), source.model(), target.count);
    carry_cells(target, source);
    for (size_t i = 0; spoil && i < source.count; i += 61)
      source.model()[i] ^= 0x5a;
  };
  return true;
}

static inline cudaPitchedPtr pitched(const Region &region) {
  return make_cudaPitchedPtr(region.address(), region.pitch(), region.width, region.slice_rows);
}

inline bool Actor::build_copy_of_rows(int device, bool captured, Op &op) {
  auto suits = [&](Object &object) {
    bool here = object.device == device || object.is_host() || object.kind == Kind::Managed;
    return captured ? here && object.defined && !is_pageable(object) && object.kind != Kind::Managed : here;
  };
  Region to, from;
  to.object = pick([&](Object &object) { return suits(object) && !object.read_only; });
  from.object = pick(suits);
  if (!to.object || !from.object || (to.object->is_host() && from.object->is_host()))
    return false;
  size_t most = std::min(to.object->width, from.object->width);
  size_t width = 1 + draw.below(std::min<size_t>(most, 2000)), height = 1 + draw.below(12);
  size_t depth = draw.one_in(2) ? 1 + draw.below(3) : 1;
  if (!region(to, width, height, depth) || !region(from, width, height, depth) || !apart(writes(to), reads(from)))
    return false;
  cudaMemcpyKind kind = direction(*to.object, *from.object);
  bool solid = depth > 1 || draw.one_in(4);
  say("copy rows: object %d +%zu <- object %d +%zu, %zux%zux%zu, kind %d%s", to.object->id, to.at, from.object->id,
      from.at, width, height, depth, int(kind), solid ? ", 3-D" : "");
  op.touches = {writes(to), reads(from)};
  op.touches[1].at_call = is_pageable(*from.object);
  op.host_waits = is_pageable(*to.object);
  op.issue = [=](cudaStream_t stream) {
    if (!solid) {
      OK(cudaMemcpy2DAsync(to.address(), to.pitch(), from.address(), from.pitch(), width, height, kind, stream));
      return;
    }
    cudaMemcpy3DParms parameters = {};
    parameters.srcPtr = pitched(from);
    parameters.dstPtr = pitched(to);
    parameters.extent = make_cudaExtent(width, height, depth);
    parameters.kind = kind;
    OK(cudaMemcpy3DAsync(&parameters, stream));
  };
  op.model = [=] {
    for (size_t slice = 0; slice < depth; slice++)
      for (size_t row = 0; row < height; row++)
        memcpy(to.object->model.data() + to.begin_of(row, slice), from.object->model.data() + from.begin_of(row, slice),
               width);
  };
  return true;
}

inline bool Actor::build_set(int device, Op &op) {
  Region to;
  to.object = pick([&](Object &object) {
    return !object.read_only && !object.is_host() && (object.device == device || object.kind == Kind::Managed);
  });
  if (!to.object)
    return false;
  int value = int(draw.below(256));
  if (!has(kRows) || draw.one_in(2)) {
    Range bytes = range(*to.object, size_t(-1));
    say("set object %d +%zu %zu to %d", to.object->id, bytes.at, bytes.count, value);
    op.touches = {writes(bytes)};
    op.issue = [=](cudaStream_t stream) { OK(cudaMemsetAsync(bytes.address(), value, bytes.count, stream)); };
    op.model = [=] { memset(bytes.model(), value, bytes.count); };
    return true;
  }
  size_t width = 1 + draw.below(std::min<size_t>(to.object->width, 2000)), height = 1 + draw.below(10);
  size_t depth = draw.one_in(2) ? 1 + draw.below(3) : 1;
  if (!region(to, width, height, depth))
    return false;
  bool solid = depth > 1 || draw.one_in(4);
  say("set rows of object %d +%zu %zux%zux%zu to %d", to.object->id, to.at, width, height, depth, value);
  op.touches = {writes(to)};
  op.issue = [=](cudaStream_t stream) {
    if (solid)
      OK(cudaMemset3DAsync(pitched(to), value, make_cudaExtent(width, height, depth), stream));
    else
      OK(cudaMemset2DAsync(to.address(), to.pitch(), value, width, height, stream));
  };
  op.model = [=] {
    for (size_t slice = 0; slice < depth; slice++)
      for (size_t row = 0; row < height; row++)
        memset(to.object->model.data() + to.begin_of(row, slice), value, width);
  };
  return true;
}

inline void Actor::step_copy() {
  int where = device();
  Op op;
  if (has(kRows) && draw.one_in(3) ? build_copy_of_rows(where, false, op) : build_copy(where, false, op))
    run(lane(where), op);
}

inline void Actor::step_set() {
  int where = device();
  Op op;
  if (build_set(where, op))
    run(lane(where), op);
}

// Calls without a stream, which wait as CUDA says.
inline void Actor::step_copy_at_once() {
  int where = device();
  auto suits = [&](Object &object) { return object.device == where || object.is_host() || across(object); };
  Object *to = pick([&](Object &object) { return suits(object) && !object.read_only; });
  Object *from = pick(suits);
  if (!to || !from)
    return step_allocate();
  Range target = range(*to, size_t(-1)), source = range(*from, size_t(-1));
  target.count = source.count = std::min(target.count, source.count);
  if (!apart(writes(target), reads(source)))
    return;
  cudaMemcpyKind kind = direction(*to, *from);
  bool set = draw.one_in(5) && !to->is_host() && reaches(where, *to);
  int value = int(draw.below(256));
  Op op;
  if (set) {
    say("set at once object %d +%zu %zu", to->id, target.at, target.count);
    op.touches = {writes(target)};
    op.issue = [=](cudaStream_t) { OK(cudaMemset(target.address(), value, target.count)); };
    op.model = [=] { memset(target.model(), value, target.count); };
  } else {
    say("copy at once object %d +%zu <- object %d +%zu, %zu bytes, kind %d", to->id, target.at, from->id, source.at,
        target.count, int(kind));
    op.touches = {writes(target), reads(source)};
    // cudaMemcpyPeer is always in the legacy stream.
    bool peers = to->kind == Kind::Device && from->kind == Kind::Device && draw.one_in(4) && !kPerThreadDefault;
    op.issue = [=](cudaStream_t) {
      if (peers)
        OK(cudaMemcpyPeer(target.address(), to->device, source.address(), from->device, target.count));
      else
        OK(cudaMemcpy(target.address(), source.address(), target.count, kind));
    };
    op.model = [=] {
      memcpy(target.model(), source.model(), target.count);
      carry_cells(target, source);
    };
    bool managed = to->kind == Kind::Managed || from->kind == Kind::Managed;
    op.touches[1].at_call = is_pageable(*from);
    op.touches[1].only_now = is_pageable(*from) && !managed;
    op.touches[1].told = from->is_locked() && !managed;
    op.host_waits = !managed && (to->is_host() || (from->is_host() && !is_pageable(*from)));
    // Between host memory the call does the work itself.
    if (to->is_host() && from->is_host())
      arrange_host(op.touches);
  }
  run(default_lane(where), op);
}

// Copies by the names of device variables.
inline void Actor::step_symbol() {
  int where = device();
  std::vector<Object *> here;
  for (auto &object : symbols)
    if (object->device == where && object->size() > 8)
      here.push_back(object.get());
  Object &symbol = *draw.of(here);
  if (!symbol.defined)
    define(symbol);
  if (symbol.symbol == static_cast<const void *>(global_bytes) && !symbol.base && draw.one_in(4)) {
    use(where);
    say("the address of the device variable %d", symbol.id);
    void *base = nullptr;
    OK(cudaGetSymbolAddress(&base, global_bytes));
    symbol.base = static_cast<unsigned char *>(base) + symbol.offset;
    return;
  }
  bool in = draw.one_in(2);
  Object *other = pick([&](Object &object) {
    return (object.device == where || object.is_host()) && object.kind != Kind::Managed && &object != &symbol &&
           (in || !object.read_only);
  });
  if (!other)
    return step_allocate();
  Range variable = range(symbol, size_t(-1)), place_of = range(*other, size_t(-1));
  variable.count = place_of.count = std::min(variable.count, place_of.count);
  bool in_stream = draw.one_in(2) && !is_pageable(*other);
  cudaMemcpyKind kind = in ? direction(symbol, *other) : direction(*other, symbol);
  say("copy device variable %d +%zu %s object %d +%zu, %zu bytes, kind %d", symbol.id, variable.at, in ? "<-" : "->",
      other->id, place_of.at, variable.count, int(kind));
  Op op;
  op.touches = in ? std::vector<Touch>{writes(variable), reads(place_of)}
                  : std::vector<Touch>{writes(place_of), reads(variable)};
  op.touches[1].at_call = op.touches[1].only_now = in && is_pageable(*other);
  op.touches[1].told = in && other->is_locked();
  op.host_waits = !in_stream && other->is_host() && !(in && is_pageable(*other));
  size_t offset = symbol.offset + variable.at;
  op.issue = [=, &symbol](cudaStream_t stream) {
    unsigned char *bytes = place_of.address();
    if (in && in_stream)
      OK(cudaMemcpyToSymbolAsync(symbol.symbol, bytes, variable.count, offset, kind, stream));
    else if (in)
      OK(cudaMemcpyToSymbol(symbol.symbol, bytes, variable.count, offset, kind));
    else if (in_stream)
      OK(cudaMemcpyFromSymbolAsync(bytes, symbol.symbol, variable.count, offset, kind, stream));
    else
      OK(cudaMemcpyFromSymbol(bytes, symbol.symbol, variable.count, offset, kind));
  };
  op.model = [=] {
    const Range &to = in ? variable : place_of, &from = in ? place_of : variable;
    memcpy(to.model(), from.model(), to.count);
  };
  run(in_stream ? lane(where) : default_lane(where), op);
}
