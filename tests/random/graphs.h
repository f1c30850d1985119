// Graphs by capture: a few ops, some of them on a second branch, launched as often as the seed has it.
#pragma once

#include "pointers.h"

static inline bool collide(const Op &one, const Op &other) {
  for (const Touch &a : one.touches)
    for (const Touch &b : other.touches)
      if ((a.writes || b.writes) && !apart(a, b))
        return true;
  return false;
}

inline void Actor::step_capture() {
  // A legacy default stream must not be waited for by a capture, whoever uses it: so only streams that do not.
  std::vector<Lane *> free;
  for (auto &lane : order.lanes)
    if (lane->alive && lane->kind == LaneKind::NonBlocking)
      free.push_back(lane.get());
  if (free.empty() || graphs.size() >= 3)
    return graphs.empty() ? step_streams() : step_graph();
  Lane &first = *draw.of(free);
  Lane *second = nullptr;
  for (Lane *lane : free)
    if (lane != &first && lane->device == first.device)
      second = lane;
  std::vector<Op> trunk, branch;
  for (size_t i = 1 + draw.below(5); i > 0; i--) {
    Op op;
    bool built = false;
    switch (draw.below(has(kRows) ? 5 : 4)) {
    case 0:
      built = build_copy(first.device, true, op);
      break;
    case 1:
      built = build_set(first.device, op);
      break;
    case 4:
      built = build_copy_of_rows(first.device, true, op);
      break;
    default:
      built = build_launch(first.device, op);
    }
    if (!built)
      continue;
    // What the branch does collides with nothing that is done beside it.
    bool aside = second && draw.one_in(2);
    for (const Op &other : aside ? trunk : branch)
      aside &= !collide(op, other);
    bool ahead = false;
    for (const Op &other : branch)
      ahead |= !aside && collide(op, other);
    if (!ahead)
      (aside ? branch : trunk).push_back(std::move(op));
  }
  if (trunk.empty() && branch.empty())
    return step_allocate();
  say("capture %zu ops and %zu beside them in stream %zu", trunk.size(), branch.size(), first.id);
  use(first.device);
  cudaEvent_t fork = nullptr, meet = nullptr;
  if (!branch.empty()) {
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&meet, cudaEventDisableTiming));
  }
  const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed,
                                         cudaStreamCaptureModeGlobal};
  std::unique_lock<std::shared_mutex> lock(common.captures);
  OK(cudaStreamBeginCapture(first.handle, modes[draw.below(common.alone ? 3 : 2)]));
  if (!branch.empty()) {
    OK(cudaEventRecord(fork, first.handle));
    OK(cudaStreamWaitEvent(second->handle, fork, 0));
    for (const Op &op : branch)
      op.issue(second->handle);
    OK(cudaEventRecord(meet, second->handle));
  }
  for (const Op &op : trunk)
    op.issue(first.handle);
  if (!branch.empty())
    OK(cudaStreamWaitEvent(first.handle, meet, 0));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(first.handle, &status));
  if (status != cudaStreamCaptureStatusActive)
    fail("the capture is over before its end");
  cudaGraph_t captured;
  OK(cudaStreamEndCapture(first.handle, &captured));
  lock.unlock();
  if (fork) {
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(meet));
  }
  auto graph = std::make_unique<Graph>();
  graph->device = first.device;
  OK(cudaGraphInstantiate(&graph->exec, captured, 0));
  if (draw.one_in(2))
    OK(cudaGraphUpload(graph->exec, first.handle));
  OK(cudaGraphDestroy(captured));
  for (auto *part : {&branch, &trunk})
    for (Op &op : *part) {
      graph->touches.insert(graph->touches.end(), op.touches.begin(), op.touches.end());
      graph->ops.push_back(std::move(op));
    }
  graphs.push_back(std::move(graph));
}

inline void Actor::step_graph() {
  if (graphs.empty())
    return step_capture();
  size_t at = draw.below(graphs.size());
  if (draw.one_in(6)) {
    say("destroy a graph");
    return drop_graph(at);
  }
  Graph &graph = *graphs[at];
  for (size_t times = 1 + draw.below(3); times > 0; times--) {
    Lane &by = lane(graph.device);
    say("launch a graph of %zu ops in stream %zu", graph.ops.size(), by.id);
    Op op;
    op.touches = graph.touches;
    op.issue = [&](cudaStream_t stream) { OK(cudaGraphLaunch(graph.exec, stream)); };
    op.model = [&] {
      for (const Op &part : graph.ops)
        apply(part);
    };
    run(by, op);
    graph.launches.push_back({by.id, by.issued, 0, 0, true});
  }
}

inline void Actor::drop_graph(size_t at) {
  for (const Access &launch : graphs[at]->launches)
    if (!Order::is_known(order.host, launch))
      wait(nullptr, launch);
  OK(cudaGraphExecDestroy(graphs[at]->exec));
  graphs.erase(graphs.begin() + long(at));
}
