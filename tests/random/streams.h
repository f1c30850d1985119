// Streams and events, and the waits that keep ops that touch the same bytes apart.
#pragma once

#include "actor.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr bool kPerThreadDefault = true;
#else
constexpr bool kPerThreadDefault = false;
#endif

inline void Actor::use(int device) {
  if (current == device && !draw.one_in(16))
    return;
  OK(cudaSetDevice(device));
  current = device;
}

inline int Actor::device() { return has(kDevices) ? int(draw.below(size_t(common.devices))) : 0; }

// The stream of calls that name none.
inline Lane &Actor::default_lane(int device) {
  for (auto &lane : order.lanes)
    if (lane->device == device && lane->kind == (kPerThreadDefault ? LaneKind::PerThread : LaneKind::Legacy))
      return *lane;
  fail("no default stream");
}

inline Lane &Actor::lane(int device) {
  std::vector<Lane *> all;
  for (auto &lane : order.lanes)
    if (lane->alive && lane->device == device)
      all.push_back(lane.get());
  return *draw.of(all);
}

inline bool Actor::reaches(int device, const Object &object) const {
  bool anywhere = object.is_host() || object.kind == Kind::Managed;
  return anywhere || object.device == device || (common.peers && object.kind == Kind::Device);
}

inline void Actor::synchronize_device() {
  std::shared_lock<std::shared_mutex> lock(common.captures);
  OK(cudaDeviceSynchronize());
}

inline void Actor::record(Lane &lane, Mark &mark) {
  use(lane.device);
  OK(cudaEventRecord(mark.event, lane.handle));
  order.record(lane, mark);
}

// An event of the device, old or new.
inline Mark *Actor::mark(int device) {
  std::vector<Mark *> all;
  for (auto &mark : marks)
    if (mark->device == device)
      all.push_back(mark.get());
  if (!all.empty() && (all.size() >= 6 || draw.below(3) != 0))
    return draw.of(all);
  auto mark = std::make_unique<Mark>();
  mark->device = device;
  mark->timing = draw.one_in(2);
  use(device);
  if (mark->timing && draw.one_in(2))
    OK(cudaEventCreate(&mark->event));
  else
    OK(cudaEventCreateWithFlags(&mark->event, (mark->timing ? 0u : unsigned(cudaEventDisableTiming)) |
                                                  (draw.one_in(3) ? unsigned(cudaEventBlockingSync) : 0u)));
  marks.push_back(std::move(mark));
  return marks.back().get();
}

// Makes the lane's next op, or the host where there is no lane, come after the access.
inline void Actor::wait(Lane *lane, const Access &access) {
  Lane &other = *order.lanes[access.lane];
  size_t way = draw.below(other.alive ? (has(kEvents) ? 6 : 3) : 1);
  Mark *known = nullptr;
  for (auto &mark : marks)
    if (mark->recorded && Order::is_known(mark->knows, access))
      known = mark.get();
  if (known && draw.one_in(2))
    way = lane ? 6 : 7;
  static const char *const ways[] = {"the device", "the stream", "queries", "an event", "an event", "an event's end",
                                     "an older event", "an older event's end"};
  detail("%s waits for %s of stream %zu", lane ? "the stream" : "the host", ways[way], other.id);
  use(other.device);
  switch (way) {
  case 0:
    synchronize_device();
    order.host_waits_for_device(other.device);
    break;
  case 1:
    OK(cudaStreamSynchronize(other.handle));
    order.host_waits_for(other);
    break;
  case 2:
    for (cudaError_t code; (code = cudaStreamQuery(other.handle)) != cudaSuccess;)
      if (code != cudaErrorNotReady)
        OK(code);
    order.host_waits_for(other);
    break;
  default:
    if (way < 6) {
      known = mark(other.device);
      record(other, *known);
    }
    if (lane && way != 5) {
      use(lane->device);
      OK(cudaStreamWaitEvent(lane->handle, known->event, 0));
      Order::tell(*lane, known->knows);
    } else if (way != 5 || draw.one_in(2)) {
      OK(cudaEventSynchronize(known->event));
      order.host_waits_for(*known);
    } else {
      for (cudaError_t code; (code = cudaEventQuery(known->event)) != cudaSuccess;)
        if (code != cudaErrorNotReady)
          OK(code);
      order.host_waits_for(*known);
    }
  }
  if (lane)
    Order::tell(*lane, order.host);
}

static inline bool conflict(const Touch &touch, const Access &access) {
  return (touch.writes || access.writes) && touch.from < access.to && access.from < touch.to;
}

inline void Actor::arrange(Lane &lane, const std::vector<Touch> &touches) {
  order.begin(lane);
  for (const Touch &touch : touches)
    for (size_t i = 0; i < touch.object->accesses.size(); i++) {
      const Access access = touch.object->accesses[i];
      if (conflict(touch, access) && !Order::is_known(touch.told ? lane.told : lane.knows, access))
        wait(&lane, access);
    }
}

// For the host's own hands on memory that it sees.
inline void Actor::arrange_host(const std::vector<Touch> &touches) {
  for (const Touch &touch : touches)
    for (size_t i = 0; i < touch.object->accesses.size(); i++) {
      const Access access = touch.object->accesses[i];
      if (conflict(touch, access) && !Order::is_known(order.host, access))
        wait(nullptr, access);
    }
}

inline void Actor::apply(const Op &op) {
  for (const Touch &touch : op.touches)
    if (touch.writes)
      touch.object->overwrite(touch.from, touch.to);
  op.model();
}

inline void Actor::run(Lane &lane, const Op &op) {
  for (const Touch &touch : op.touches)
    if (touch.at_call)
      arrange_host({{touch.object, touch.from, touch.to, true}});
  arrange(lane, op.touches);
  detail("in stream %zu, %s of device %d", lane.id, name(lane.kind), lane.device);
  use(lane.device);
  op.issue(lane.handle);
  uint32_t number = order.issue(lane);
  for (const Touch &touch : op.touches) {
    touch.object->forget_known(order.host);
    if (!touch.only_now)
      touch.object->accesses.push_back({lane.id, number, touch.from, touch.to, touch.writes});
  }
  if (op.host_waits)
    order.host_waits_for(lane);
  apply(op);
}

inline void Actor::step_streams() {
  std::vector<Lane *> own;
  for (auto &lane : order.lanes)
    if (lane->alive && (lane->kind == LaneKind::Blocking || lane->kind == LaneKind::NonBlocking))
      own.push_back(lane.get());
  if (own.size() < 5 && (own.empty() || draw.below(3) != 0)) {
    int where = device();
    use(where);
    bool blocking = draw.one_in(2);
    say("create a %s stream on device %d", blocking ? "blocking" : "non-blocking", where);
    cudaStream_t stream;
    if (blocking && draw.one_in(2))
      OK(cudaStreamCreate(&stream));
    else if (draw.one_in(3))
      OK(cudaStreamCreateWithPriority(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking, 0));
    else
      OK(cudaStreamCreateWithFlags(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
    order.add(blocking ? LaneKind::Blocking : LaneKind::NonBlocking, where, stream);
    return;
  }
  Lane &lane = *draw.of(own);
  say("destroy stream %zu", lane.id);
  if (draw.one_in(2))
    use(lane.device);
  // What it was given goes on; nobody can wait for it by its name any more.
  OK(cudaStreamDestroy(lane.handle));
  lane.alive = false;
}

inline void Actor::step_events() {
  if (marks.empty() || draw.one_in(3)) {
    Lane &from = lane(device());
    say("record an event in stream %zu", from.id);
    record(from, *mark(from.device));
    return;
  }
  size_t at = draw.below(marks.size());
  Mark &one = *marks[at];
  switch (draw.below(5)) {
  case 0:
    say("destroy an event");
    OK(cudaEventDestroy(one.event));
    marks.erase(marks.begin() + long(at));
    return;
  case 1: {
    Lane &by = lane(device());
    say("stream %zu waits for an event", by.id);
    use(by.device);
    OK(cudaStreamWaitEvent(by.handle, one.event, 0));
    if (one.recorded)
      Order::tell(by, one.knows);
    return;
  }
  case 2: {
    say("query an event");
    cudaError_t code = cudaEventQuery(one.event);
    if (code != cudaErrorNotReady)
      OK(code);
    return;
  }
  case 3:
    say("wait for an event");
    OK(cudaEventSynchronize(one.event));
    if (one.recorded)
      order.host_waits_for(one);
    return;
  default:
    for (auto &other : marks)
      if (other->timing && one.timing && other->recorded && one.recorded && other->device == one.device) {
        say("the time between two events");
        OK(cudaEventSynchronize(one.event));
        OK(cudaEventSynchronize(other->event));
        order.host_waits_for(one);
        order.host_waits_for(*other);
        float milliseconds = -1e9f;
        OK(cudaEventElapsedTime(&milliseconds, other->event, one.event));
        if (!(milliseconds > -1e6f && milliseconds < 1e6f))
          fail("%f ms", double(milliseconds));
        return;
      }
  }
}

inline void CUDART_CB on_host(void *argument) {
  Called &called = *static_cast<Called *>(argument);
  place = called.place;
  if (called.counter) {
    uint32_t before = called.counter->fetch_add(1);
    if (before != called.expected)
      fail("host function %u of its stream came as number %u", called.expected, before);
  }
  if (called.value >= 0)
    for (size_t i = 0; i < called.count; i++)
      called.bytes[i] = (unsigned char)(called.value + i * 3);
  else
    for (size_t i = 0; i < called.count; i++)
      if (called.bytes[i] != called.model[i])
        fail("a host function finds byte %zu as %02x, not %02x", i, called.bytes[i], called.model[i]);
}

inline void CUDART_CB on_host_with_code(cudaStream_t, cudaError_t code, void *argument) {
  if (code != cudaSuccess)
    fail("a callback gets %s", cudaGetErrorName(code));
  on_host(argument);
}

inline void Actor::step_callback() {
  Lane &where = lane(device());
  Object *object = pick([&](Object &object) { return object.kind == Kind::Pinned || object.kind == Kind::Pageable; });
  called.emplace_back();
  Called &call = called.back();
  call.place = place;
  if (counted.size() <= where.id)
    counted.resize(order.lanes.size());
  auto &[counter, number] = counted[where.id];
  if (!counter) {
    counters.emplace_back(0);
    counter = &counters.back();
  }
  call.counter = counter;
  call.expected = number++;
  Op op;
  Range bytes;
  if (object) {
    bytes = range(*object, 3000);
    call.bytes = bytes.address();
    call.count = bytes.count;
    if (draw.one_in(2) && !object->read_only) {
      call.value = int(draw.below(256));
      op.touches = {writes(bytes)};
    } else {
      call.model.assign(bytes.model(), bytes.model() + bytes.count);
      op.touches = {reads(bytes)};
    }
  }
  say("host function %u in stream %zu %s object %d +%zu %zu", call.expected, where.id,
      call.value >= 0 ? "writes" : "reads", object ? object->id : 0, bytes.at, bytes.count);
  snprintf(call.place.op, sizeof call.place.op, "%s", place.op);
  bool old = draw.one_in(3);
  op.issue = [&call, old](cudaStream_t stream) {
    if (old)
      OK(cudaStreamAddCallback(stream, on_host_with_code, &call, 0));
    else
      OK(cudaLaunchHostFunc(stream, on_host, &call));
  };
  op.model = [&call, bytes] {
    if (call.value >= 0)
      for (size_t i = 0; i < bytes.count; i++)
        bytes.model()[i] = (unsigned char)(call.value + i * 3);
  };
  run(where, op);
}

inline void Actor::step_synchronize() {
  int where = device();
  use(where);
  if (draw.one_in(2)) {
    say("wait for device %d", where);
    synchronize_device();
    order.host_waits_for_device(where);
    return;
  }
  Lane &one = lane(where);
  say("wait for stream %zu", one.id);
  OK(cudaStreamSynchronize(one.handle));
  order.host_waits_for(one);
}

inline void Actor::settle() {
  place.op[0] = 0;
  for (int device = 0; device < common.devices; device++) {
    bool used = false;
    for (auto &lane : order.lanes)
      used |= lane->device == device && lane->issued > 0;
    if (!used)
      continue;
    use(device);
    synchronize_device();
    order.host_waits_for_device(device);
  }
}
