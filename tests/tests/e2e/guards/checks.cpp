// What guards the reads of guards.cu, in a file that is compiled apart.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

struct Config {
  size_t n;
  size_t sizes[3];
};

static Config config = {64, {64, 64, 64}};
Config *current;
// Far outside of any array.
size_t which = size_t(1) << 44;

void validate(bool given) {
  if (given)
    return;
  puts("no configuration");
  exit(3);
}

void refresh() {
  current = &config;
  which = 2;
}

__attribute__((const)) size_t quotient(size_t a, size_t b) { return a / b; }
