// Objects come, are compared with their models, and go.
#pragma once

#include <sys/mman.h>

#include "streams.h"

inline size_t Actor::live() const {
  size_t bytes = 0;
  for (auto &object : objects)
    bytes += object->pitch * object->rows;
  return bytes;
}

// Registered memory has pages of its own.
inline void *pages(size_t bytes) {
  void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    fail("no memory on the host");
  return at;
}

inline void Actor::step_allocate() {
  auto object = std::make_unique<Object>();
  object->id = next_id++;
  size_t budget = options.most - std::min(options.most, live());
  if (budget < (1 << 20) || objects.size() >= 14)
    return step_release();
  object->width = object->pitch = draw.size(std::min(budget / 2, options.most / 3));
  int where = object->device = device();
  std::vector<Kind> kinds = {Kind::Device, Kind::Device, Kind::Device, Kind::Device, Kind::Pageable};
  const std::pair<Feature, Kind> more[] = {
      {kPool, Kind::Pool}, {kManaged, Kind::Managed}, {kPinned, Kind::Pinned}, {kRegistered, Kind::Registered}};
  for (auto [feature, kind] : more)
    if (has(feature))
      kinds.push_back(kind);
  object->kind = draw.of(kinds);
  void *at = nullptr;
  size_t bytes = object->width;
  use(where);
  say("allocate object %d: %s of device %d, %zu bytes", object->id, name(object->kind), where, bytes);
  switch (object->kind) {
  case Kind::Device:
    if (has(kRows) && bytes >= 16 && draw.one_in(4)) {
      object->rows = 2 + draw.below(std::min<size_t>(bytes / 8, 40));
      object->width = bytes / object->rows;
      if (draw.one_in(2)) {
        OK(cudaMallocPitch(&at, &object->pitch, object->width, object->rows));
      } else {
        size_t slices = object->rows % 3 == 0 ? 3 : 1;
        cudaPitchedPtr pointer = {};
        OK(cudaMalloc3D(&pointer, make_cudaExtent(object->width, object->rows / slices, slices)));
        at = pointer.ptr;
        object->pitch = pointer.pitch;
      }
      break;
    }
    OK(cudaMalloc(&at, bytes));
    break;
  case Kind::Pool: {
    // Whether default streams wait for each other where nothing runs, nobody says.
    Lane &by = lane(where);
    Order::tell(by, order.host);
    OK(cudaMallocAsync(&at, bytes, by.handle));
    object->accesses.push_back({by.id, order.issue(by), 0, object->size(), true});
    break;
  }
  case Kind::Managed:
    OK(cudaMallocManaged(&at, bytes));
    break;
  case Kind::Pinned:
    if (draw.one_in(2))
      OK(cudaMallocHost(&at, bytes));
    else
      OK(cudaHostAlloc(&at, bytes, draw.one_in(2) ? cudaHostAllocMapped : cudaHostAllocPortable));
    break;
  case Kind::Registered:
    at = pages(bytes);
    OK(cudaHostRegister(at, bytes, draw.one_in(2) ? cudaHostRegisterMapped : cudaHostRegisterDefault));
    break;
  default:
    at = pages(bytes);
  }
  if (!at || (object->kind == Kind::Device && size_t(at) % 256 != 0))
    fail("the address is %p", at);
  object->base = static_cast<unsigned char *>(at);
  object->model.resize(object->size());
  objects.push_back(std::move(object));
}

// Gives every byte of the object a value.
inline void Actor::define(Object &object) {
  char before[sizeof place.op];
  snprintf(before, sizeof before, "%s", place.op);
  object.defined = true;
  bool by_symbol = object.kind == Kind::Symbol && !object.base;
  size_t way = object.is_host() || by_symbol ? 0 : draw.below(4);
  int device = object.device;
  int value = int(draw.below(256));
  say("the first bytes of object %d, way %zu", object.id, way);
  Op op;
  op.touches = {{&object, 0, object.size(), true}};
  std::vector<unsigned char> bytes;
  if (way == 0) {
    bytes.resize(object.size());
    draw.fill(bytes.data(), bytes.size());
    op.model = [&] { object.model = bytes; };
    if (object.is_host()) {
      arrange_host(op.touches);
      memcpy(object.base, bytes.data(), bytes.size());
      apply(op);
      snprintf(place.op, sizeof place.op, "%s", before);
      return;
    }
    op.issue = [&](cudaStream_t) {
      if (by_symbol)
        OK(cudaMemcpyToSymbol(object.symbol, bytes.data(), bytes.size(), object.offset));
      else if (object.is_flat())
        OK(cudaMemcpy(object.base, bytes.data(), bytes.size(), cudaMemcpyDefault));
      else
        OK(cudaMemcpy2D(object.base, object.pitch, bytes.data(), object.width, object.width, object.rows,
                        cudaMemcpyHostToDevice));
      std::fill(bytes.begin(), bytes.end(), 0xcc);
    };
    // The copy takes its bytes at the call, so the model takes its own before.
    object.model = bytes;
    op.model = [] {};
    run(default_lane(device), op);
  } else {
    bool kernel = way == 1 && object.is_flat() && object.size() < 100000;
    op.issue = [&](cudaStream_t stream) {
      if (kernel) {
        fill<<<3, 64, 0, stream>>>(object.base, object.size(), value);
        OK(cudaGetLastError());
      } else if (object.is_flat()) {
        OK(cudaMemsetAsync(object.base, value, object.size(), stream));
      } else {
        OK(cudaMemset2DAsync(object.base, object.pitch, value, object.width, object.rows, stream));
      }
    };
    op.model = [&] {
      for (size_t i = 0; i < object.size(); i++)
        object.model[i] = (unsigned char)(kernel ? value + i * 7 : size_t(value));
    };
    run(lane(device), op);
  }
  snprintf(place.op, sizeof place.op, "%s", before);
}

// One of the objects that are suitable, with bytes in it.
template <class P> Object *Actor::pick(P &&suits) {
  std::vector<Object *> all;
  for (auto *group : {&objects, &views, &symbols})
    for (auto &object : *group)
      if ((object->kind != Kind::Symbol || object->base) && suits(*object))
        all.push_back(object.get());
  if (all.empty())
    return nullptr;
  Object *object = draw.of(all);
  if (!object->defined)
    define(*object);
  return object;
}

inline Range Actor::range(Object &object, size_t most) {
  size_t row = draw.below(object.rows), column = 0;
  size_t length = object.width;
  if (draw.below(3) != 0) {
    column = draw.below(object.width);
    length = 1 + draw.below(object.width - column);
  }
  return {&object, row * object.width + column, std::min(length, most)};
}

// Finds a place for a block in `region.object`.
inline bool Actor::region(Region &region, size_t width, size_t height, size_t depth) {
  Object &object = *region.object;
  region.width = width;
  region.height = height;
  region.depth = depth;
  region.slice_rows = height + draw.below(3);
  size_t rows = (depth - 1) * region.slice_rows + height;
  if (!object.is_flat()) {
    if (width > object.width || rows > object.rows)
      return false;
    region.step = object.width;
    region.at = draw.below(object.rows - rows + 1) * object.width + draw.below(object.width - width + 1);
    return true;
  }
  region.step = width + draw.below(40);
  size_t whole = (rows - 1) * region.step + width;
  if (whole > object.size())
    return false;
  region.at = draw.below(object.size() - whole + 1);
  return true;
}

inline void Actor::check(const Object &object, size_t at, const unsigned char *bytes, size_t count) {
  if (memcmp(object.model.data() + at, bytes, count) == 0)
    return;
  size_t first = 0, wrong = 0;
  for (size_t i = count; i-- > 0;)
    if (object.model[at + i] != bytes[i])
      first = i, wrong++;
  fail("object %d (%s of device %d, %zu bytes in %zu rows, at %p): byte %zu is %02x, not %02x; %zu bytes of %zu differ",
       object.id, name(object.kind), object.device, object.size(), object.rows, (void *)object.base, at + first,
       bytes[first], object.model[at + first], wrong, count);
}

inline void Actor::compare(Object &object) {
  if (!object.defined)
    return;
  std::vector<Touch> all = {{&object, 0, object.size(), false}};
  if (object.is_seen_by_host() && (object.is_host() || draw.one_in(2))) {
    arrange_host(all);
    check(object, 0, object.base, object.size());
    return;
  }
  std::vector<unsigned char> bytes(object.size(), 0xee);
  Op op;
  op.touches = all;
  op.host_waits = object.kind != Kind::Managed;
  bool by_symbol = object.kind == Kind::Symbol && (!object.base || draw.one_in(2));
  bool in_stream = !op.host_waits || draw.one_in(3);
  bool any = object.kind == Kind::Managed || draw.one_in(2);
  op.issue = [&](cudaStream_t stream) {
    cudaMemcpyKind kind = any ? cudaMemcpyDefault : cudaMemcpyDeviceToHost;
    size_t width = object.width;
    if (by_symbol && in_stream)
      OK(cudaMemcpyFromSymbolAsync(bytes.data(), object.symbol, width, object.offset, kind, stream));
    else if (by_symbol)
      OK(cudaMemcpyFromSymbol(bytes.data(), object.symbol, width, object.offset));
    else if (object.is_flat() && in_stream)
      OK(cudaMemcpyAsync(bytes.data(), object.base, bytes.size(), kind, stream));
    else if (object.is_flat())
      OK(cudaMemcpy(bytes.data(), object.base, bytes.size(), kind));
    else if (in_stream)
      OK(cudaMemcpy2DAsync(bytes.data(), width, object.base, object.pitch, width, object.rows, kind, stream));
    else
      OK(cudaMemcpy2D(bytes.data(), width, object.base, object.pitch, width, object.rows, kind));
  };
  op.model = [] {};
  Lane &by = in_stream ? lane(object.device) : default_lane(object.device);
  run(by, op);
  if (!op.host_waits)
    arrange_host({{&object, 0, object.size(), true}});
  check(object, 0, bytes.data(), bytes.size());
}

inline void Actor::step_compare() {
  std::vector<Object *> all;
  for (auto *group : {&objects, &views, &symbols})
    for (auto &object : *group)
      if (object->defined)
        all.push_back(object.get());
  if (all.empty())
    return step_allocate();
  Object &object = *draw.of(all);
  say("compare object %d", object.id);
  compare(object);
}

// The host reads and writes memory that it shares with the device.
inline void Actor::step_touch_by_host() {
  Object *object = pick([](Object &object) { return object.is_seen_by_host() && !object.read_only; });
  if (!object)
    return step_compare();
  Range bytes = range(*object, 100000);
  say("the host writes object %d +%zu %zu", object->id, bytes.at, bytes.count);
  arrange_host({writes(bytes)});
  check(*object, bytes.at, bytes.address(), bytes.count);
  draw.fill(bytes.address(), bytes.count);
  object->overwrite(bytes.at, bytes.at + bytes.count);
  memcpy(bytes.model(), bytes.address(), bytes.count);
}

// Nothing may use the object any more.
inline void Actor::drop_references(Object &object) {
  for (size_t i = graphs.size(); i-- > 0;)
    for (const Touch &touch : graphs[i]->touches)
      if (touch.object == &object) {
        drop_graph(i);
        break;
      }
  for (auto *group : {&objects, &symbols})
    for (auto &other : *group)
      for (auto cell = other->cells.begin(); cell != other->cells.end();)
        cell = cell->second.object == &object ? other->cells.erase(cell) : std::next(cell);
}

// Waits for the device, as far as CUDA's does.
inline void Actor::free_now(Object &object) {
  std::shared_lock<std::shared_mutex> lock(common.captures);
  OK(cudaFree(object.base));
}

inline void Actor::release(size_t at) {
  Object &object = *objects[at];
  drop_references(object);
  std::vector<Touch> all = {{&object, 0, object.size(), true}};
  bool waits = draw.one_in(2);
  switch (object.kind) {
  case Kind::Device:
  case Kind::Managed:
    // cudaFree waits for the device's work, and promises nothing about that of others.
    for (size_t i = 0; i < object.accesses.size(); i++)
      if (const Access access = object.accesses[i];
          order.lanes[access.lane]->device != object.device && !Order::is_known(order.host, access))
        wait(nullptr, access);
    if (draw.one_in(2))
      use(object.device);
    free_now(object);
    break;
  case Kind::Pool:
    if (waits) {
      Op op;
      op.touches = all;
      op.issue = [&](cudaStream_t stream) { OK(cudaFreeAsync(object.base, stream)); };
      op.model = [] {};
      run(lane(object.device), op);
      break;
    }
    arrange_host(all);
    free_now(object);
    break;
  default:
    arrange_host(all);
    if (object.kind == Kind::Pinned)
      OK(cudaFreeHost(object.base));
    if (object.kind == Kind::Registered)
      OK(cudaHostUnregister(object.base));
    if (object.kind != Kind::Pinned)
      munmap(object.base, object.pitch);
  }
  objects[at] = std::move(objects.back());
  objects.pop_back();
}

inline void Actor::step_release() {
  if (objects.empty())
    return;
  size_t at = draw.below(objects.size());
  if (objects[at]->read_only)
    return;
  say("free object %d", objects[at]->id);
  if (draw.one_in(2))
    compare(*objects[at]);
  release(at);
}
