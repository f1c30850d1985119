// Objects: memory of every kind, with what its bytes must be.
#pragma once

#include <cuda_runtime.h>
#include <map>
#include <vector>

#include "order.h"

enum class Kind { Device, Pool, Managed, Symbol, Pinned, Registered, Pageable };

inline const char *name(Kind kind) {
  static const char *const names[] = {"device", "pool", "managed", "symbol", "pinned", "registered", "pageable"};
  return names[int(kind)];
}

struct Object;

// Where a pointer leads.
struct Target {
  Object *object;
  size_t at;
};

struct Object {
  int id = 0;
  Kind kind = Kind::Device;
  int device = 0;
  unsigned char *base = nullptr;
  // Rows of `width` bytes, `pitch` apart in memory; what is between belongs to nobody. One row, mostly. The pitch is
  // CUDA's choice, so that places are counted without it.
  size_t width = 0, rows = 1, pitch = 0;
  // What the bytes must be, once something has been written.
  std::vector<unsigned char> model;
  bool defined = false;
  // A view of what other threads read as well.
  bool read_only = false;
  // Where pointers lie in it that kernels may follow.
  std::map<size_t, Target> cells;
  std::vector<Access> accesses;
  // Of a device variable: its host shadow, and where in it the object lies.
  const void *symbol = nullptr;
  size_t offset = 0;

  size_t size() const { return width * rows; }
  bool is_flat() const { return rows == 1; }
  unsigned char *address(size_t at) const { return base + (is_flat() ? at : at / width * pitch + at % width); }
  bool is_locked() const { return kind == Kind::Pinned || kind == Kind::Registered; }
  bool is_host() const { return kind == Kind::Pinned || kind == Kind::Registered || kind == Kind::Pageable; }
  // Whether the host may look at it directly.
  bool is_seen_by_host() const { return is_host() || kind == Kind::Managed; }

  // Bytes are written: pointers that lay there are gone.
  void overwrite(size_t from, size_t to) {
    for (auto cell = cells.lower_bound(from < 7 ? 0 : from - 7); cell != cells.end() && cell->first < to;)
      cell = cells.erase(cell);
  }

  void forget_known(const Clock &clock) {
    accesses.erase(std::remove_if(accesses.begin(), accesses.end(),
                                  [&](const Access &access) { return Order::is_known(clock, access); }),
                   accesses.end());
  }
};

// Some bytes of an object, one after another in memory.
struct Range {
  Object *object = nullptr;
  size_t at = 0, count = 0;
  unsigned char *address() const { return object->address(at); }
  unsigned char *model() const { return object->model.data() + at; }
};

// A block of rows and slices of an object. Distances between them are places in the object.
struct Region {
  Object *object = nullptr;
  size_t at = 0, step = 0, slice_rows = 0;
  size_t width = 0, height = 0, depth = 1;

  size_t begin_of(size_t row, size_t slice) const { return at + (slice * slice_rows + row) * step; }
  size_t end() const { return begin_of(height - 1, depth - 1) + width; }
  unsigned char *address() const { return object->address(at); }
  size_t pitch() const { return object->is_flat() ? step : object->pitch; }
};
