// A program that learns late how much memory it needs: it holds some, computes, then asks for more and computes
// over all of it. The arrays sit in a list that grows, so nothing knows the sum beforehand.
//
//   grow [hold] [more] [--barrier DIR COUNT]
//
// With --barrier it waits, once it holds the first part, until COUNT programs have left a mark in the folder DIR, so
// that they all hold first and then ask at once.
//
//#Args: hold=1MiB more=2MiB
//#Stdout: grow: hold=1048576 more=2097152 PASS
//#Lazy: pointers-in-memory
//#Record: hold + more

#include "common.h"
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

typedef unsigned long long Word;

struct Part {
  Word *words;
  size_t count;
};

// Grid-stride, so that a few thousand threads serve any size.
__global__ void start(Word *words, size_t count, Word seed) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    words[i] = seed + i;
}

__global__ void scramble(Word *words, size_t count) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    words[i] = words[i] * 6364136223846793005ull + 1442695040888963407ull;
}

static Word scrambled(Word word, int times) {
  for (int t = 0; t < times; t++)
    word = word * 6364136223846793005ull + 1442695040888963407ull;
  return word;
}

static void ask(std::vector<Part> &parts, size_t bytes) {
  Part part{nullptr, bytes / sizeof(Word)};
  CHECK(cudaMalloc(&part.words, bytes));
  start<<<64, 128>>>(part.words, part.count, Word(parts.size()) << 40);
  CHECK_LAUNCH();
  parts.push_back(part);
}

static void compute(const std::vector<Part> &parts) {
  for (const Part &part : parts) {
    scramble<<<64, 128>>>(part.words, part.count);
    CHECK_LAUNCH();
  }
  CHECK(cudaDeviceSynchronize());
}

// Whether every word of part `index` was scrambled `times` times. Reads it back a piece at a time.
static bool verify(const Part &part, size_t index, int times) {
  const size_t piece = size_t(1) << 21;
  std::vector<Word> host(part.count < piece ? part.count : piece);
  for (size_t at = 0; at < part.count; at += piece) {
    size_t count = part.count - at < piece ? part.count - at : piece;
    CHECK(cudaMemcpy(host.data(), part.words + at, count * sizeof(Word), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
      if (host[i] != scrambled((Word(index) << 40) + at + i, times))
        return false;
  }
  return true;
}

static size_t marks(const std::string &folder) {
  size_t count = 0;
  if (DIR *entries = opendir(folder.c_str())) {
    while (const dirent *entry = readdir(entries))
      count += entry->d_name[0] != '.';
    closedir(entries);
  }
  return count;
}

static void wait_at_barrier(const std::string &folder, size_t count) {
  std::string mark = folder + "/" + std::to_string(getpid());
  int file = open(mark.c_str(), O_CREAT | O_WRONLY, 0600);
  if (file < 0) {
    perror(mark.c_str());
    exit(2);
  }
  close(file);
  while (marks(folder) < count)
    usleep(2000);
}

int main(int argc, char **argv) {
  size_t hold = argc > 1 ? parse_size(argv[1]) : size_t(1) << 20;
  size_t more = argc > 2 ? parse_size(argv[2]) : size_t(2) << 20;

  std::vector<Part> parts;
  ask(parts, hold);
  compute(parts);
  if (argc == 6 && strcmp(argv[3], "--barrier") == 0)
    wait_at_barrier(argv[4], count_argument(argc, argv, 5, 1));
  ask(parts, more);
  compute(parts);

  bool right = verify(parts[0], 0, 2) && verify(parts[1], 1, 1);
  for (const Part &part : parts)
    CHECK(cudaFree(part.words));
  printf("grow: hold=%zu more=%zu ", hold, more);
  return report(right);
}
