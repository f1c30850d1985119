// Kernels that show which of their blocks were run, how often, and whether as wholes: by seeds. `long` has one kernel of
// many slow blocks; `capture` one beside a capture.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t code = call;                                                                                           \
    if (code)                                                                                                          \
      printf("%s: %s\n", #call, cudaGetErrorName(code)), exit(2);                                                      \
  } while (0)

struct Numbers {
  int values[4];
};

static __device__ unsigned number() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

// Counts, in a function of its own, which asks for the place of its block.
static __device__ __noinline__ void count(int *runs) { atomicAdd(&runs[number()], 1); }

__global__ void counting(int *runs, Numbers numbers, int *sums) {
  if (threadIdx.x)
    return;
  for (int k = 0; k < 4; k++)
    numbers.values[k & 3] += k;
  count(runs);
  sums[number()] = numbers.values[0] + numbers.values[1] + numbers.values[2] + numbers.values[3];
}

// All threads of a block see what all others wrote, in turns.
__global__ void exchanging(int *runs, int *sums, int turns) {
  __shared__ int words[64];
  words[threadIdx.x] = number() + threadIdx.x;
  for (int turn = 0; turn < turns; turn++) {
    __syncthreads();
    int other = words[(threadIdx.x + 1) & 63];
    __syncthreads();
    words[threadIdx.x] = other;
  }
  atomicAdd(&sums[number()], words[threadIdx.x] - threadIdx.x - number());
  if (threadIdx.x == 0)
    count(runs);
}

// Threads return early, in the middle, and behind barriers that others reach.
__global__ void returning(int *runs, int *sums, unsigned n) {
  __shared__ int words[64];
  unsigned i = number() * 64 + threadIdx.x;
  words[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x == 63)
    count(runs);
  if (i >= n || i % 5 == 4)
    return;
  words[threadIdx.x] = 1;
  __syncthreads();
  int sum = 0;
  for (int k = 0; k < 64; k++)
    sum += words[k];
  if (i % 3 == 2)
    return;
  __syncthreads();
  words[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    sums[number()] = words[0];
}

// The last step of each block is that of its first warp.
__global__ void reducing(int *runs, int *sums) {
  __shared__ int words[64];
  words[threadIdx.x] = number() ^ threadIdx.x;
  __syncthreads();
  if (threadIdx.x >= 32)
    return;
  int sum = words[threadIdx.x] + words[threadIdx.x + 32];
  for (int k = 16; k > 0; k /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, k);
  if (threadIdx.x == 0)
    count(runs), sums[number()] = sum;
}

// A block that only some blocks have work in, the same for all of its threads.
__global__ void skipping(int *runs, int *sums, int step) {
  __shared__ int last;
  if (threadIdx.x == 0)
    count(runs);
  if (number() % step)
    return;
  if (threadIdx.x == 0)
    last = number();
  __syncthreads();
  if (threadIdx.x == 7)
    sums[number()] = last + 1;
}

__global__ void slow(int *runs, int *sums, int turns) {
  // Of a signed number the compiler would know that it stays above 0, and leave the loop out.
  unsigned x = threadIdx.x + 1;
  for (int turn = 0; turn < turns; turn++)
    x = x * 1664525 + 1013904223;
  if (x == 0)
    sums[0] = turns;
  count(runs);
}

static unsigned long long state;
static unsigned draw(unsigned below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (state >> 20) % below;
}

static dim3 grid() {
  switch (draw(8)) {
  case 0: return dim3(1);
  case 1: return dim3(1 + draw(4));
  case 2: return dim3(997);
  case 3: return dim3(1 + draw(40), 1 + draw(20));
  case 4: return dim3(1 + draw(9), 1 + draw(9), 1 + draw(9));
  case 5: return dim3(1, 1, 1 + draw(50));
  case 6: return dim3(1 + draw(3000));
  default: return dim3(1 + draw(300));
  }
}

static const char *names[] = {"counting", "exchanging", "returning", "reducing", "skipping"};

static int expected(unsigned kind, unsigned block, unsigned n, const Numbers &numbers, int step) {
  int sum = 0;
  switch (kind) {
  case 0: return numbers.values[0] + numbers.values[1] + numbers.values[2] + numbers.values[3] + 6;
  case 1: {
    for (unsigned t = 0; t < 64; t++)
      sum += int((t + step) & 63) - int(t);
    return sum;
  }
  case 2: {
    unsigned first = block * 64;
    bool returns = first >= n || first % 5 == 4 || first % 3 == 2;
    for (unsigned i = first; i < first + 64; i++)
      sum += i < n && i % 5 != 4;
    return returns ? -1 : sum;
  }
  case 3: {
    for (unsigned t = 0; t < 64; t++)
      sum += block ^ t;
    return sum;
  }
  default: return block % step ? -1 : int(block) + 1;
  }
}

static void play(unsigned long long seed, dim3 blocks) {
  unsigned count = blocks.x * blocks.y * blocks.z, kind = draw(5);
  int step = 1 + draw(7), *runs, *sums;
  unsigned n = draw(count * 64 + 1);
  Numbers numbers = {{int(draw(9)), int(draw(9)), int(draw(9)), int(draw(9))}};
  CHECK(cudaMalloc(&runs, count * sizeof(int)));
  CHECK(cudaMalloc(&sums, count * sizeof(int)));
  CHECK(cudaMemset(runs, 0, count * sizeof(int)));
  CHECK(cudaMemset(sums, kind == 1 ? 0 : 255, count * sizeof(int)));
  switch (kind) {
  case 0: counting<<<blocks, 32>>>(runs, numbers, sums); break;
  case 1: exchanging<<<blocks, 64>>>(runs, sums, step); break;
  case 2: returning<<<blocks, 64>>>(runs, sums, n); break;
  case 3: reducing<<<blocks, 64>>>(runs, sums); break;
  default: skipping<<<blocks, 32>>>(runs, sums, step); break;
  }
  CHECK(cudaGetLastError());
  std::vector<int> ran(count), found(count);
  CHECK(cudaMemcpy(ran.data(), runs, count * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(found.data(), sums, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (unsigned block = 0; block < count; block++) {
    int wanted = expected(kind, block, n, numbers, step);
    if (ran[block] != 1 || found[block] != wanted) {
      printf("seed %llu, %s: block %u of %u ran %d times and found %d, not %d\n", seed, names[kind], block, count, ran[block],
             found[block], wanted);
      exit(1);
    }
  }
  CHECK(cudaFree(runs));
  CHECK(cudaFree(sums));
}

static int play_long(unsigned count, int turns) {
  int *runs, *sums;
  CHECK(cudaMalloc(&runs, count * sizeof(int)));
  CHECK(cudaMalloc(&sums, 8 << 20));
  CHECK(cudaMemset(runs, 0, count * sizeof(int)));
  slow<<<count, 32>>>(runs, sums, turns);
  CHECK(cudaGetLastError());
  std::vector<int> ran(count);
  CHECK(cudaMemcpy(ran.data(), runs, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (unsigned block = 0; block < count; block++)
    if (ran[block] != 32)
      return printf("block %u ran %d times\n", block, ran[block] / 32), 1;
  CHECK(cudaFree(runs));
  CHECK(cudaFree(sums));
  return printf("right\n"), 0;
}

// A kernel in a stream beside one that captures: whoever waits for it must not end the capture.
static int play_capture() {
  int *runs, *sums, ran[64];
  CHECK(cudaMalloc(&runs, sizeof ran));
  CHECK(cudaMalloc(&sums, sizeof ran));
  CHECK(cudaMemset(runs, 0, sizeof ran));
  cudaStream_t captures, works;
  CHECK(cudaStreamCreateWithFlags(&captures, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&works, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(captures, cudaStreamCaptureModeGlobal));
  counting<<<64, 32, 0, works>>>(runs, Numbers(), sums);
  CHECK(cudaGetLastError());
  counting<<<64, 32, 0, captures>>>(runs, Numbers(), sums);
  cudaGraph_t graph;
  cudaGraphExec_t made;
  CHECK(cudaStreamEndCapture(captures, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  CHECK(cudaGraphLaunch(made, captures));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(ran, runs, sizeof ran, cudaMemcpyDeviceToHost));
  for (int count : ran)
    if (count != 2)
      return printf("a block ran %d times\n", count), 1;
  return printf("right\n"), 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "capture"))
    return play_capture();
  if (argc == 4 && !strcmp(argv[1], "long"))
    return play_long(atoi(argv[2]), atoi(argv[3]));
  unsigned long long first = atoll(argv[1]), last = atoll(argv[2]);
  for (unsigned long long seed = first; seed < last; seed++) {
    state = seed * 0x9e3779b97f4a7c15ull + 1;
    draw(2), draw(2);
    play(seed, grid());
  }
  if (first == 0) {
    state = 77;
    play(last, dim3(1 << 20));
  }
  return printf("right\n"), 0;
}
