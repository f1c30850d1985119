// The host hides the address of an object from its own types: each way gives a kernel the address as a number, in a
// union, in bytes, as a distance. The kernel makes an address of it, and counts in the object.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      std::printf("hidden: line %d: %d %s\n", __LINE__, error, cudaGetErrorString(error));                             \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

using Word = unsigned long long;

constexpr int kCount = 1 << 16;
constexpr int kRounds = 24;

union Either {
  Word words[4];
  int *values;
};
struct Bytes {
  char bytes[32];
};
struct Pointers {
  long first;
  int *values;
  long last;
};
struct Numbers {
  Word first, values, last;
};

__device__ void add(int *values) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) values[i]++;
}

__global__ void by_either(Either given) { add(given.values); }
__global__ void by_bytes(Bytes given) {
  int *values;
  memcpy(&values, given.bytes + 3, sizeof values);
  add(values);
}
__global__ void by_numbers(Numbers given) { add((int *)given.values); }
__global__ void by_word(Word given) { add((int *)given); }
__global__ void by_distance(char *from, long by) { add((int *)(from + by)); }
__global__ void by_quarters(unsigned a, unsigned b, unsigned c, unsigned d) {
  add((int *)((Word)d << 48 | (Word)c << 32 | (Word)b << 16 | a));
}

constexpr dim3 grid(kCount / 256), block(256);

// The object of a way, which `prepare` hides and `launch` uses.
template <class Prepare, class Launch> __attribute__((always_inline)) inline int play(Prepare prepare, Launch launch) {
  int *values, *host = (int *)std::calloc(kCount, sizeof(int)), wrong = 0;
  CHECK(cudaMalloc(&values, kCount * sizeof(int)));
  CHECK(cudaMemset(values, 0, kCount * sizeof(int)));
  auto hidden = prepare(values);
  for (int round = 0; round < kRounds; ++round) {
    launch(hidden);
    CHECK(cudaGetLastError());
    if (round % 4 == 3) {
      CHECK(cudaDeviceSynchronize());
      usleep(4000);
    }
  }
  CHECK(cudaMemcpy(host, values, kCount * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(values));
  for (int i = 0; i < kCount; ++i) wrong += host[i] != kRounds;
  std::printf("hidden: %d wrong\n", wrong);
  return wrong != 0;
}

Either in_either(int *values) {
  Either either = {};
  either.values = values;
  return either;
}
Bytes in_bytes(int *values) {
  Bytes bytes = {};
  memcpy(bytes.bytes + 3, &values, sizeof values);
  return bytes;
}
Numbers in_numbers(int *values) {
  Pointers pointers{1, values, 2};
  Numbers numbers;
  memcpy(&numbers, &pointers, sizeof numbers);
  return numbers;
}
Word in_word(int *values) {
  Word word;
  memcpy(&word, &values, sizeof word);
  return word;
}

int main(int, char **arguments) {
  auto is = [how = arguments[1]](const char *name) { return std::strcmp(how, name) == 0; };
  if (is("union")) return play(in_either, [](Either one) { by_either<<<grid, block>>>(one); });
  if (is("bytes")) return play(in_bytes, [](Bytes one) { by_bytes<<<grid, block>>>(one); });
  if (is("structure")) return play(in_numbers, [](Numbers one) { by_numbers<<<grid, block>>>(one); });
  if (is("word")) return play(in_word, [](Word one) { by_word<<<grid, block>>>(one); });
  if (is("heap")) {
    auto prepare = [](int *values) {
      Word *words = (Word *)std::malloc(4 * sizeof(Word));
      memcpy(words + 1, &values, sizeof values);
      return words;
    };
    return play(prepare, [](Word *words) { by_word<<<grid, block>>>(words[1]); });
  }
  if (is("array")) {
    struct Words {
      Word words[4];
    };
    auto prepare = [](int *values) {
      int *all[4];
      for (int i = 0; i < 4; ++i) all[i] = values;
      Words words;
      memcpy(&words, all, sizeof words);
      return words;
    };
    return play(prepare, [at = 0](Words &words) mutable { by_word<<<grid, block>>>(words.words[at++ % 4]); });
  }
  if (is("direct")) {
    auto launch = [](Numbers &one) {
      void *given[] = {&one};
      CHECK(cudaLaunchKernel((void *)by_numbers, grid, block, given, 0, nullptr));
    };
    return play(in_numbers, launch);
  }
  if (is("cooperative")) {
    auto launch = [](Word &one) {
      void *given[] = {&one};
      CHECK(cudaLaunchCooperativeKernel((void *)by_word, grid, block, given, 0, nullptr));
    };
    return play(in_word, launch);
  }
  if (is("configured")) {
    auto launch = [](Either one) {
      cudaLaunchConfig_t config = {};
      config.gridDim = grid;
      config.blockDim = block;
      CHECK(cudaLaunchKernelEx(&config, by_either, one));
    };
    return play(in_either, launch);
  }
  if (is("distance")) {
    char *other;
    CHECK(cudaMalloc(&other, 4096));
    auto prepare = [other](int *values) { return (char *)values - other; };
    return play(prepare, [other](long by) { by_distance<<<grid, block>>>(other, by); });
  }
  if (is("quarters")) {
    auto launch = [](int *values) {
      Word word = (Word)values;
      by_quarters<<<grid, block>>>(word & 0xffff, word >> 16 & 0xffff, word >> 32 & 0xffff, word >> 48 & 0xffff);
    };
    return play([](int *values) { return values; }, launch);
  }
  if (is("text")) {
    auto prepare = [](int *values) {
      char text[32];
      std::snprintf(text, sizeof text, "%p", (void *)values);
      return (Word)std::strtoull(text, nullptr, 16);
    };
    return play(prepare, [](Word one) { by_word<<<grid, block>>>(one); });
  }
  return 2;
}
