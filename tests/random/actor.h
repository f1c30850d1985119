// One host thread of a random program: its objects, streams, events and graphs, and the ops that it may do next.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <shared_mutex>

#include "kernels.h"
#include "object.h"
#include "options.h"
#include "report.h"

struct Touch {
  Object *object;
  size_t from, to;
  bool writes;
  // Pageable memory may be read by the call itself, whatever the stream has still to do ...
  bool at_call = false;
  // ... and is the program's again when the call returns.
  bool only_now = false;
  // A copy of up to some 20 KB takes its bytes from pinned memory at the call as well (H200, driver 580), where its stream
  // has nothing to do and was told to wait for nothing: that default streams wait for others does not count. Copies of
  // rows, to managed memory and in graphs do wait.
  bool told = false;
};

inline Touch reads(const Range &range) { return {range.object, range.at, range.at + range.count, false}; }
inline Touch writes(const Range &range) { return {range.object, range.at, range.at + range.count, true}; }
inline Touch reads(const Region &region) { return {region.object, region.at, region.end(), false}; }
inline Touch writes(const Region &region) { return {region.object, region.at, region.end(), true}; }

// Something that a stream can be given: what it touches, how it is given, what it does to the models.
struct Op {
  std::vector<Touch> touches;
  std::function<void(cudaStream_t)> issue;
  std::function<void()> model;
  bool host_waits = false;
};

struct Graph {
  cudaGraphExec_t exec = nullptr;
  int device = 0;
  std::vector<Op> ops;
  std::vector<Touch> touches;
  std::vector<Access> launches;
};

// What a host function finds when it is called.
struct Called {
  Place place;
  std::atomic<uint32_t> *counter = nullptr;
  uint32_t expected = 0;
  unsigned char *bytes = nullptr;
  size_t count = 0;
  int value = -1; // to be written; or else the bytes are compared
  std::vector<unsigned char> model;
};

// What threads of one seed share. Written only while one of them runs.
struct Common {
  // A device must not be waited for while some thread captures on it.
  mutable std::shared_mutex captures;
  int devices = 1;
  bool peers = false; // each device may use the memory of each other
  bool alone = true;  // there is one thread
};

class Actor {
public:
  Actor(const Options &options, const Common &common, unsigned features, uint64_t seed, int index);

  void steps(size_t count);
  // Compares and gives up everything.
  void finish();
  // Waits for all that the thread has under way.
  void settle();

  // Objects go from one thread to another; both are settled.
  std::unique_ptr<Object> give_away();
  void take_over(std::unique_ptr<Object> object) { objects.push_back(std::move(object)); }
  // Everybody may read the thread's objects until `unshare`; all are settled.
  void share(const Object &object);
  void unshare();
  const Object *offer();
  // Forgets what cudaDeviceReset has ended.
  void was_reset(int device);

  uint64_t codes() const { return answers; }

private:
  Draw draw;
  const Options &options;
  const Common &common;
  unsigned features;
  int index;

  Order order;
  std::vector<std::unique_ptr<Object>> objects;
  std::vector<std::unique_ptr<Object>> views;
  std::vector<std::unique_ptr<Object>> symbols;
  std::vector<std::unique_ptr<Mark>> marks;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::list<Called> called;
  std::list<std::atomic<uint32_t>> counters;
  std::vector<std::pair<std::atomic<uint32_t> *, uint32_t>> counted; // by lane
  int current = -1;
  int next_id = 1;
  uint64_t answers = 14695981039346656037u;

  bool has(Feature feature) const { return features >> feature & 1; }
  void note(uint64_t answer) { answers = (answers ^ answer) * 1099511628211u; }

  // Where ops go (streams.h).
  void use(int device);
  int device();
  Lane &lane(int device);
  Lane &default_lane(int device);
  bool reaches(int device, const Object &object) const;
  void wait(Lane *lane, const Access &access);
  void arrange(Lane &lane, const std::vector<Touch> &touches);
  void arrange_host(const std::vector<Touch> &touches);
  void run(Lane &lane, const Op &op);
  void apply(const Op &op);
  Mark *mark(int device);
  void record(Lane &lane, Mark &mark);
  void synchronize_device();
  void step_streams();
  void step_events();
  void step_callback();
  void step_synchronize();

  // Memory (memory.h).
  size_t live() const;
  void step_allocate();
  void define(Object &object);
  void release(size_t at);
  void free_now(Object &object);
  void step_release();
  void drop_references(Object &object);
  void compare(Object &object);
  void check(const Object &object, size_t at, const unsigned char *bytes, size_t count);
  void step_compare();
  void step_touch_by_host();
  template <class P> Object *pick(P &&suits);
  Range range(Object &object, size_t most);
  bool region(Region &region, size_t width, size_t height, size_t depth);

  // Copies and sets (copies.h).
  cudaMemcpyKind direction(const Object &to, const Object &from);
  bool across(const Object &object);
  bool build_copy(int device, bool captured, Op &op);
  bool build_copy_of_rows(int device, bool captured, Op &op);
  bool build_set(int device, Op &op);
  void step_copy();
  void step_copy_at_once();
  void step_set();
  void step_symbol();

  // Launches (launches.h).
  template <class... P, class... A>
  std::function<void(cudaStream_t)> launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, A... arguments);
  bool build_launch(int device, Op &op);
  bool build_cooperative(int device, Op &op);
  void step_launch();
  void step_pointer();
  void step_chase();
  void step_globals();

  // Graphs (graphs.h).
  void step_capture();
  void step_graph();
  void drop_graph(size_t at);

  // Calls that fail (errors.h).
  void step_error();
  void answer(cudaError_t code) {
    detail("%s", cudaGetErrorName(code));
    note(uint64_t(code));
  }

  void step_reset();
  void step();
};
