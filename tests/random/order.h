// What must be done before what. Every stream has a clock: how far it is known to be behind each stream when its next op
// starts; so has the host. CUDA's rules move the clocks, and an op that touches bytes which another stream may still be
// at needs a wait first (see Actor::arrange).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cuda_runtime.h>
#include <memory>
#include <vector>

using Clock = std::vector<uint32_t>;

inline void join(Clock &into, const Clock &from) {
  if (into.size() < from.size())
    into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++)
    into[i] = std::max(into[i], from[i]);
}

enum class LaneKind { Legacy, PerThread, Blocking, NonBlocking };

inline const char *name(LaneKind kind) {
  static const char *const names[] = {"legacy", "per-thread", "blocking", "non-blocking"};
  return names[int(kind)];
}

// A stream, as one host thread uses it.
struct Lane {
  size_t id = 0;
  LaneKind kind = LaneKind::Legacy;
  int device = 0;
  cudaStream_t handle = nullptr;
  bool alive = true;
  uint32_t issued = 0;
  Clock knows;
  // The same without what default streams imply.
  Clock told;
};

// An event.
struct Mark {
  cudaEvent_t event = nullptr;
  int device = 0;
  bool timing = false;
  bool recorded = false;
  Clock knows;
};

// Bytes of an object that an op reads or writes.
struct Access {
  size_t lane;
  uint32_t number;
  size_t from, to;
  bool writes;
};

class Order {
public:
  std::vector<std::unique_ptr<Lane>> lanes;
  Clock host;

  Lane *add(LaneKind kind, int device, cudaStream_t handle) {
    auto lane = std::make_unique<Lane>();
    lane->id = lanes.size();
    lane->kind = kind;
    lane->device = device;
    lane->handle = handle;
    lanes.push_back(std::move(lane));
    return lanes.back().get();
  }

  // What the next op on the lane comes after, by CUDA's rules alone.
  void begin(Lane &lane) {
    tell(lane, host);
    for (auto &other : lanes) {
      if (other.get() == &lane || other->device != lane.device || !other->alive)
        continue;
      bool implied = lane.kind == LaneKind::Legacy ? is_blocking(*other)
                                                   : is_blocking(lane) && other->kind == LaneKind::Legacy;
      if (implied)
        join_all(lane.knows, *other);
    }
  }

  // The lane's next op comes after all this, because the program says so.
  static void tell(Lane &lane, const Clock &clock) {
    join(lane.knows, clock);
    join(lane.told, clock);
  }

  // An op was given to the lane; its number there.
  uint32_t issue(Lane &lane) {
    set(lane.knows, lane.id, ++lane.issued);
    set(lane.told, lane.id, lane.issued);
    return lane.issued;
  }

  void record(Lane &lane, Mark &mark) {
    mark.recorded = true;
    mark.knows = lane.knows;
  }

  void host_waits_for(Lane &lane) { join_all(host, lane); }
  void host_waits_for(const Mark &mark) { join(host, mark.knows); }

  void host_waits_for_device(int device) {
    for (auto &lane : lanes)
      if (lane->device == device)
        join_all(host, *lane);
  }

  static bool is_known(const Clock &clock, const Access &access) {
    return access.lane < clock.size() && clock[access.lane] >= access.number;
  }

private:
  static bool is_blocking(const Lane &lane) {
    return lane.kind == LaneKind::Blocking || lane.kind == LaneKind::PerThread;
  }

  static void set(Clock &clock, size_t id, uint32_t number) {
    if (clock.size() <= id)
      clock.resize(id + 1);
    clock[id] = std::max(clock[id], number);
  }

  static void join_all(Clock &clock, const Lane &lane) {
    join(clock, lane.knows);
    set(clock, lane.id, lane.issued);
  }
};
