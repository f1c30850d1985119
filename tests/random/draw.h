// Where every decision comes from: numbers that depend on the seed alone. Nothing that CUDA answers, no address and no
// time may go into a decision, so that a seed is the same program natively and under MGB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

class Draw {
public:
  explicit Draw(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) { next(); }

  // SplitMix64.
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Below `bound`, which is not 0.
  size_t below(size_t bound) { return size_t(next() % bound); }
  size_t between(size_t least, size_t most) { return least + below(most - least + 1); }
  bool one_in(size_t n) { return below(n) == 0; }
  unsigned char byte() { return (unsigned char)(next() >> 40); }
  template <class T> const T &of(const std::vector<T> &all) { return all[below(all.size())]; }

  // Few large sizes among many small ones, and the odd ones around powers of two and granules.
  size_t size(size_t most) {
    static const size_t classes[] = {16, 300, 5000, 70000, 300, 5000, 70000, 5000, 1100000, 300, 5000, 6000000};
    size_t bytes = 1 + below(classes[below(sizeof classes / sizeof *classes)]);
    if (one_in(6)) {
      static const size_t edges[] = {1, 255, 256, 257, 511, 512, 4096, 65535, 65536, 1048575, 1048576, 2097152, 2097153};
      bytes = edges[below(sizeof edges / sizeof *edges)];
    } else if (one_in(400)) {
      bytes = (size_t(8) << 20) + below(size_t(12) << 20);
    }
    return bytes < most ? bytes : 1 + bytes % most;
  }

  // Bytes that look like nothing else.
  void fill(unsigned char *to, size_t count) {
    uint64_t word = next() | 1;
    for (size_t i = 0; i < count; i++) {
      if (i % 8 == 0)
        word = word * 6364136223846793005u + 1442695040888963407u;
      to[i] = (unsigned char)(word >> (8 * (i % 8)));
    }
  }

private:
  uint64_t state;
};
