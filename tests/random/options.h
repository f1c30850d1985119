// What a run of the interpreter is told, and which parts of CUDA a seed uses.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "draw.h"

enum Feature : unsigned {
  kRows,        // pitched memory, 2-D and 3-D copies and sets
  kPool,        // cudaMallocAsync
  kManaged,     // managed memory
  kPinned,      // pinned and mapped host memory
  kRegistered,  // registered host memory
  kStreams,     // streams of the program's own
  kPerThread,   // cudaStreamPerThread
  kEvents,      // events, and waits for them
  kCallbacks,   // host functions in streams
  kGraphs,      // graphs by capture
  kPointers,    // pointers in objects, followed by kernels
  kGlobals,     // device variables
  kCooperative, // launches whose blocks wait for each other
  kErrors,      // calls that fail
  kResets,      // cudaDeviceReset
  kDevices,     // all devices, not just the first
  kPeers,       // peer access
  kThreads,     // several host threads
  kAcross,      // copies by one device of another's memory
  kFeatures
};

inline const char *const kFeatureNames[kFeatures] = {
    "rows",   "pool",   "managed",  "pinned",  "registered",  "streams", "perthread", "events",  "callbacks",
    "graphs", "pointers", "globals", "cooperative", "errors", "resets",  "devices",   "peers",   "threads", "across"};

struct Options {
  uint64_t first = 1, last = 1;
  size_t steps = 90;               // of each thread
  size_t most = size_t(24) << 20;  // bytes that a thread's objects may have together
  unsigned patience = 60;          // seconds that a seed may take
  bool trace = false;
  bool reset = false; // every device, after each seed
  unsigned without = 0; // features, as bits

  // Reads `FIRST[..LAST] [--steps N] [--most MIB] [--without NAME,...] [--patience S] [--reset] [--trace]`.
  bool read(int argc, char **argv) {
    if (argc < 2)
      return false;
    char *end = nullptr;
    first = last = strtoull(argv[1], &end, 10);
    if (strncmp(end, "..", 2) == 0)
      last = strtoull(end + 2, &end, 10);
    if (*end != 0 || last < first)
      return false;
    for (int i = 2; i < argc; i++) {
      const char *value = i + 1 < argc ? argv[i + 1] : "";
      if (strcmp(argv[i], "--trace") == 0)
        trace = true;
      else if (strcmp(argv[i], "--reset") == 0)
        reset = true;
      else if (i + 1 == argc)
        return false;
      else if (strcmp(argv[i], "--steps") == 0)
        steps = strtoull(value, nullptr, 10), i++;
      else if (strcmp(argv[i], "--most") == 0)
        most = strtoull(value, nullptr, 10) << 20, i++;
      else if (strcmp(argv[i], "--patience") == 0)
        patience = unsigned(atoi(value)), i++;
      else if (strcmp(argv[i], "--without") == 0 && leave_out(value))
        i++;
      else
        return false;
    }
    return steps > 0 && most > 0;
  }

  // The features of a seed: about two thirds of them, so that rare ones meet alone as well.
  unsigned features(Draw &draw) const {
    unsigned chosen = 0;
    for (unsigned i = 0; i < kFeatures; i++)
      chosen |= unsigned(draw.below(3) != 0) << i;
    return chosen & ~without;
  }

private:
  bool leave_out(const char *names) {
    for (const char *at = names; *at != 0;) {
      size_t length = strcspn(at, ",");
      bool known = false;
      for (unsigned i = 0; i < kFeatures; i++)
        if (strlen(kFeatureNames[i]) == length && strncmp(kFeatureNames[i], at, length) == 0) {
          without |= 1u << i;
          known = true;
        }
      if (!known)
        return false;
      at += length + (at[length] == ',');
    }
    return true;
  }
};
