// Random programs against a model of what every byte must be. A seed is a program: allocations, copies, sets, launches,
// streams, events, graphs, threads and devices as it draws them. The same seed makes the same decisions on every GPU,
// natively and under MGB.
//
//   random FIRST[..LAST] [--steps N] [--most MIB] [--without FEATURE,...] [--patience S] [--reset] [--trace]
//
// A line a seed: `SEED CODES`, where CODES sums up what calls answered that fail on purpose. The first byte that is not
// as it must be ends the process, with seed, thread and step; --steps shortens the program, --trace lists its ops. Seeds
// follow one another in one process; --reset has each begin as the first one does.

#include <csignal>
#include <thread>

#include "life.h"

// Runs `what` on every thread of the program, and waits for all.
template <class F> static void on_all(std::vector<std::unique_ptr<Actor>> &actors, uint64_t seed, size_t step, F &&what) {
  auto one = [&](size_t i) {
    place = {};
    place.seed = seed;
    place.thread = int(i);
    place.step = step;
    places[i] = &place;
    what(*actors[i]);
    places[i] = nullptr;
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < actors.size(); i++)
    threads.emplace_back(one, i);
  one(0);
  for (std::thread &thread : threads)
    thread.join();
}

static void peers(int devices, bool enable) {
  for (int one = 0; one < devices; one++)
    for (int other = 0; other < devices; other++)
      if (one != other) {
        OK(cudaSetDevice(one));
        OK(enable ? cudaDeviceEnablePeerAccess(other, 0) : cudaDeviceDisablePeerAccess(other));
      }
}

static uint64_t play(const Options &options, uint64_t seed, int devices, bool reach) {
  Draw draw(seed);
  unsigned features = options.features(draw);
  auto has = [&](Feature feature) { return (features >> feature & 1) != 0; };
  Common common;
  common.devices = has(kDevices) ? devices : 1;
  common.peers = has(kPeers) && common.devices > 1 && reach;
  size_t count = has(kThreads) ? 1 + draw.below(kMostThreads) : 1;
  common.alone = count == 1;
  size_t phases = common.alone ? 1 : 1 + draw.below(3), steps = 1 + draw.below(options.steps);
  place = {};
  place.seed = seed;
  if (common.peers)
    peers(devices, true);
  std::vector<std::unique_ptr<Actor>> actors;
  for (size_t i = 0; i < count; i++)
    actors.push_back(std::make_unique<Actor>(options, common, features, seed * 16 + i, int(i)));
  for (size_t phase = 0; phase < phases; phase++) {
    on_all(actors, seed, phase * 1000, [&](Actor &actor) {
      actor.steps(steps / phases + 1);
      actor.settle();
      actor.unshare();
    });
    if (phase + 1 == phases)
      break;
    // Between phases nothing is under way: objects change hands, and some are for all to read.
    for (size_t i = 0; i < count; i++)
      if (draw.one_in(2))
        if (auto object = actors[i]->give_away())
          actors[(i + 1 + draw.below(count)) % count]->take_over(std::move(object));
    for (size_t i = 0; i < count; i++)
      if (const Object *object = draw.one_in(2) ? actors[i]->offer() : nullptr)
        for (auto &actor : actors)
          if (actor != actors[i])
            actor->share(*object);
  }
  on_all(actors, seed, phases * 1000, [](Actor &actor) { actor.finish(); });
  uint64_t codes = 0;
  for (auto &actor : actors)
    codes = codes * 31 + actor->codes();
  if (common.peers)
    peers(devices, false);
  if ((has(kResets) && draw.one_in(8)) || options.reset) {
    for (int device = 0; device < common.devices; device++) {
      OK(cudaSetDevice(device));
      OK(cudaDeviceReset());
    }
  }
  OK(cudaSetDevice(0));
  return codes;
}

static void hung(int) {
  for (Place *at : places)
    if (at)
      fprintf(stderr, "random: seed=%llu thread=%d step=%zu hangs: %s\n", (unsigned long long)at->seed, at->thread,
              at->step, at->op);
  _exit(3);
}

int main(int argc, char **argv) {
  Options options;
  if (!options.read(argc, argv)) {
    fprintf(stderr, "usage: random FIRST[..LAST] [--steps N] [--most MIB] [--without FEATURE,...] [--patience S] "
                    "[--reset] [--trace]\nfeatures:");
    for (const char *name : kFeatureNames)
      fprintf(stderr, " %s", name);
    fputc('\n', stderr);
    return 2;
  }
  tracing = options.trace;
  signal(SIGALRM, hung);
  int devices = 0, reach = 1;
  OK(cudaGetDeviceCount(&devices));
  devices = std::min(devices, 4);
  for (int other = 1; other < devices; other++) {
    int can = 0;
    OK(cudaDeviceCanAccessPeer(&can, 0, other));
    reach &= can;
  }
  for (uint64_t seed = options.first; seed <= options.last; seed++) {
    alarm(options.patience);
    uint64_t codes = play(options, seed, devices, reach != 0);
    printf("%llu %016llx\n", (unsigned long long)seed, (unsigned long long)codes);
    fflush(stdout);
  }
  printf("random: seeds %llu to %llu PASS\n", (unsigned long long)options.first, (unsigned long long)options.last);
  return 0;
}
