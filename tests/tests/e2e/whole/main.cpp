// Nothing of CUDA here: every allocation, launch and copy is in another file.
#include "field.h"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

float *room(int n);
void fill(float *to, const float *from, int n);
void fetch(float *to, const float *from, int n);
void release(float *p);
void fold(float *x, int n);
int fold_launches();
int field_launches();

static bool fields(int n) {
  Field field(n);
  field.step(3);
  return field.at(n - 1) == 3;
}

static bool folds(int n) {
  std::vector<float> host(n, 1.5f);
  float *x = room(n);
  fill(x, host.data(), n);
  fold(x, n);
  fold(x, n);
  fetch(host.data(), x, n);
  release(x);
  return host[n / 2] == 6;
}

static bool throws() {
  try {
    release(room(1 << 30));
  } catch (const std::runtime_error &) {
    return true;
  }
  return false;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1000;
  bool right = fields(n) && folds(n) && folds(2 * n);
  right = right && field_launches() == 3 && fold_launches() == 40;
  puts(right && throws() ? "PASS" : "FAIL");
  return 0;
}
