// Makes device memory short, for trials on GPUs that have plenty: takes all but a given amount and holds it until its
// standard input ends or it is killed. Not a job: it is run natively, outside MGB.
//
//   ballast LEAVE [GPU]     ballast 12GiB: every GPU; ballast 12GiB 1: only GPU 1
//
// Prints "ballast: ready" when everything is held, then one line a GPU to standard error with what it took.
//
//#Run: no

#include "common.h"
#include <unistd.h>

constexpr size_t kMiB = size_t(1) << 20;

// Allocates on the current device until no more than `leave` bytes are free. Returns what it took.
static size_t take_all_but(size_t leave) {
  size_t taken = 0;
  size_t piece = ~size_t(0);
  for (;;) {
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    if (available < leave + 2 * kMiB)
      return taken;
    size_t wanted = (available - leave) / (2 * kMiB) * (2 * kMiB);
    piece = piece < wanted ? piece : wanted;
    void *memory;
    if (cudaMalloc(&memory, piece) == cudaSuccess) {
      taken += piece;
      continue;
    }
    // Free memory need not be in one piece.
    cudaGetLastError();
    piece = piece / 2 / (2 * kMiB) * (2 * kMiB);
    if (piece == 0)
      return taken;
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: ballast LEAVE [GPU]\n");
    return 2;
  }
  size_t leave = parse_size(argv[1]);
  int gpus = 0;
  CHECK(cudaGetDeviceCount(&gpus));
  int first = argc > 2 ? int(count_argument(argc, argv, 2, 0)) : 0;
  int last = argc > 2 ? first : gpus - 1;
  for (int gpu = first; gpu <= last; gpu++) {
    CHECK(cudaSetDevice(gpu));
    size_t taken = take_all_but(leave);
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    fprintf(stderr, "ballast: gpu %d: took %zu MiB, %zu of %zu MiB are free\n", gpu, taken / kMiB, available / kMiB,
            total / kMiB);
  }
  printf("ballast: ready\n");
  fflush(stdout);

  char ignored[64];
  while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0) {
  }
  return 0;
}
