// Kernels behind kernels, copies and events in several streams, by seeds: each op must find what those before it have left.
// A third number lengthens the kernels.
// `apart` has a kernel that is done without any further call of the program's, `late` one that is launched as the process ends,
// and `leaving` threads that go on launching then.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t code = call;                                                                                           \
    if (code)                                                                                                          \
      printf("%s: %s\n", #call, cudaGetErrorName(code)), exit(2);                                                      \
  } while (0)

constexpr int kThreads = 32, kArrays = 3;

__global__ void advance(unsigned *x, unsigned a, int turns) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, word = x[i];
  for (int turn = 0; turn < turns; turn++)
    word = word * 1664525 + a;
  x[i] = word;
}

// Each block of `x` counts on another one of `y`.
__global__ void join(unsigned *x, const unsigned *y) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  x[i] = x[i] * 3 + y[n - 1 - i];
}

__global__ void done(volatile int *words, int turns) {
  unsigned x = threadIdx.x;
  for (int turn = 0; turn < turns; turn++)
    x = x * 1664525 + 1013904223;
  if (threadIdx.x == 0)
    words[blockIdx.x] = x == 1 ? 2 : 1;
}

static unsigned long long state;
static unsigned draw(unsigned below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (state >> 20) % below;
}

using Words = std::vector<unsigned>;

// All turns at once: one turn twice is a turn by other numbers.
static void advance_host(Words &x, unsigned a, int turns) {
  unsigned factor = 1, sum = 0;
  for (unsigned power = 1664525, add = a; turns > 0; turns /= 2) {
    if (turns % 2)
      factor *= power, sum = sum * power + add;
    add = add * power + add, power *= power;
  }
  for (unsigned &word : x)
    word = word * factor + sum;
}

static void join_host(Words &x, const Words &y) {
  for (size_t i = 0; i < x.size(); i++)
    x[i] = x[i] * 3 + y[x.size() - 1 - i];
}

static void play(unsigned long long seed, int most) {
  const unsigned blocks = draw(4) == 0 ? 1 + draw(4) : 1 + draw(900), count = blocks * kThreads;
  const size_t bytes = count * sizeof(unsigned);
  unsigned *x[kArrays];
  Words host[kArrays];
  cudaStream_t streams[kArrays] = {};
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  // The first array is the default stream's.
  for (int k = 0; k < kArrays; k++) {
    if (k > 0)
      CHECK(cudaStreamCreate(&streams[k]));
    host[k].assign(count, 7 * k + 1);
    CHECK(cudaMalloc(&x[k], bytes));
    CHECK(cudaMemcpy(x[k], host[k].data(), bytes, cudaMemcpyHostToDevice));
  }
  Words found(count);
  for (int step = 0, steps = 1 + draw(40); step < steps; step++) {
    const int k = draw(kArrays), other = (k + 1 + draw(kArrays - 1)) % kArrays;
    const cudaStream_t stream = streams[k];
    switch (draw(8)) {
    case 0:
    case 1:
    case 2: {
      int turns = 1 + draw(most);
      advance<<<blocks, kThreads, 0, stream>>>(x[k], step, turns);
      advance_host(host[k], step, turns);
      break;
    }
    case 3: // Behind the other stream's work, and before what comes there next.
      CHECK(cudaEventRecord(event, streams[other]));
      CHECK(cudaStreamWaitEvent(stream, event, 0));
      join<<<blocks, kThreads, 0, stream>>>(x[k], x[other]);
      CHECK(cudaEventRecord(event, stream));
      CHECK(cudaStreamWaitEvent(streams[other], event, 0));
      join_host(host[k], host[other]);
      break;
    case 4: // The default stream waits for all others, and they for it.
      join<<<blocks, kThreads>>>(x[k], x[other]);
      join_host(host[k], host[other]);
      break;
    case 5: {
      size_t part = 1 + draw(count);
      CHECK(cudaMemsetAsync(x[k], 0, part * sizeof(unsigned), stream));
      std::fill(host[k].begin(), host[k].begin() + part, 0);
      break;
    }
    case 6:
      while (cudaStreamQuery(stream) == cudaErrorNotReady)
        usleep(10);
      CHECK(cudaGetLastError());
      break;
    default:
      CHECK(cudaMemcpyAsync(found.data(), x[k], bytes, cudaMemcpyDeviceToHost, stream));
      CHECK(cudaStreamSynchronize(stream));
      if (found != host[k])
        printf("seed %llu: array %d differs in step %d\n", seed, k, step), exit(1);
    }
    CHECK(cudaGetLastError());
  }
  for (int k = 0; k < kArrays; k++) {
    CHECK(cudaMemcpy(found.data(), x[k], bytes, cudaMemcpyDeviceToHost));
    if (found != host[k])
      printf("seed %llu: array %d differs\n", seed, k), exit(1);
    CHECK(cudaFree(x[k]));
    if (k > 0)
      CHECK(cudaStreamDestroy(streams[k]));
  }
  CHECK(cudaEventDestroy(event));
}

static int play_apart(unsigned blocks, int turns) {
  volatile int *words;
  int *seen, *memory;
  CHECK(cudaHostAlloc((void **)&words, blocks * sizeof(int), cudaHostAllocMapped));
  memset((void *)words, 0, blocks * sizeof(int));
  CHECK(cudaHostGetDevicePointer((void **)&seen, (void *)words, 0));
  CHECK(cudaMalloc(&memory, 8 << 20));
  CHECK(cudaMemset(memory, 0, 8 << 20));
  done<<<blocks, kThreads>>>(seen, turns);
  for (unsigned block = 0; block < blocks; block++)
    while (words[block] == 0)
      usleep(1000);
  return printf("right\n"), 0;
}

static unsigned *late;

static void play_late() {
  unsigned word = 0;
  advance<<<4, kThreads>>>(late, 5, 1);
  CHECK(cudaMemcpy(&word, late + 17, sizeof word, cudaMemcpyDeviceToHost));
  printf(word == 1 * 1664525 + 5 ? "right\n" : "late: %u\n", word);
}

static void play_leaving() {
  static std::atomic<int> launches;
  unsigned *x;
  CHECK(cudaMalloc(&x, 40 * kThreads * sizeof(unsigned)));
  for (int thread = 0; thread < 2; thread++)
    std::thread([x] {
      cudaStream_t stream;
      CHECK(cudaStreamCreate(&stream));
      for (;; launches++)
        advance<<<40, kThreads, 0, stream>>>(x, 1, 100);
    }).detach();
  while (launches < 20)
    usleep(10);
  printf("right\n");
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "leaving"))
    return play_leaving(), 0;
  if (argc == 2 && !strcmp(argv[1], "late")) {
    Words ones(4 * kThreads, 1);
    CHECK(cudaMalloc(&late, ones.size() * sizeof(unsigned)));
    CHECK(cudaMemcpy(late, ones.data(), ones.size() * sizeof(unsigned), cudaMemcpyHostToDevice));
    // The runtime asks to be called at the end as well, here at the latest.
    unsigned add = 0;
    int turns = 0;
    void *arguments[] = {&late, &add, &turns};
    CHECK(cudaLaunchCooperativeKernel((const void *)advance, dim3(4), dim3(kThreads), arguments, 0, nullptr));
    atexit(play_late);
    advance<<<4, kThreads>>>(late, 0, 0);
    return 0;
  }
  if (argc == 4 && !strcmp(argv[1], "apart"))
    return play_apart(atoi(argv[2]), atoi(argv[3]));
  for (unsigned long long seed = atoll(argv[1]), last = atoll(argv[2]); seed < last; seed++) {
    state = seed * 0x9e3779b97f4a7c15ull + 1;
    draw(2), draw(2);
    play(seed, argc > 3 ? atoi(argv[3]) : 60);
  }
  return printf("right\n"), 0;
}
