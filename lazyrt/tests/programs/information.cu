// What cudaMemGetInfo says, in static tasks and in lazy ones. Every case also holds natively.

#include "check.h"

static const size_t MIB = size_t(1) << 20;
// What allocations are rounded to.
static const size_t NEAR = 4 * MIB;

__global__ void mark(char *bytes, size_t count, char value) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x)
    bytes[i] = value;
}

static size_t left() {
  size_t free = 0, total = 0;
  OK(cudaMemGetInfo(&free, &total));
  EXPECT(0 < free && free <= total);
  return free;
}

static void is_taken(size_t before, size_t bytes) {
  size_t now = left();
  if (now + bytes > before + NEAR || before > now + bytes + NEAR) {
    fprintf(stderr, "%zu bytes left of %zu, and %zu are taken\n", now, before, bytes);
    exit(1);
  }
}

static char *object(size_t bytes) {
  void *pointer = nullptr;
  OK(cudaMalloc(&pointer, bytes));
  return static_cast<char *>(pointer);
}

// Falls by what is allocated, used or not, and rises by what is freed.
static void static_objects() {
  size_t before = left();
  char *first = nullptr, *second = nullptr;
  OK(cudaMalloc(&first, 16 * MIB));
  is_taken(before, 16 * MIB);
  mark<<<1, 32>>>(first, 16 * MIB, 1);
  OK(cudaDeviceSynchronize());
  is_taken(before, 16 * MIB);
  OK(cudaMalloc(&second, 8 * MIB));
  mark<<<1, 32>>>(second, 8 * MIB, 2);
  OK(cudaDeviceSynchronize());
  is_taken(before, 24 * MIB);
  OK(cudaFree(first));
  is_taken(before, 8 * MIB);
  OK(cudaFree(second));
  is_taken(before, 0);
}

static void lazy_objects() {
  size_t before = left();
  for (int i = 0; i < 4; i++) {
    boxes[i].pointer = reinterpret_cast<unsigned char *>(object(8 * MIB));
    is_taken(before, (i + 1) * 8 * MIB);
    if (i % 2 == 0)
      mark<<<1, 32>>>(reinterpret_cast<char *>(boxes[i].pointer), 8 * MIB, char(i));
    is_taken(before, (i + 1) * 8 * MIB);
  }
  OK(cudaDeviceSynchronize());
  is_taken(before, 32 * MIB);
  for (int i = 0; i < 4; i++) {
    OK(cudaFree(boxes[i].pointer));
    is_taken(before, (3 - i) * 8 * MIB);
  }
}

// One of each kind. Both are of the one device that the program sees.
static void both_kinds() {
  size_t before = left();
  boxes[0].pointer = reinterpret_cast<unsigned char *>(object(8 * MIB));
  char *own = nullptr;
  OK(cudaMalloc(&own, 16 * MIB));
  mark<<<1, 32>>>(own, 16 * MIB, 1);
  is_taken(before, 24 * MIB);
  mark<<<1, 32>>>(reinterpret_cast<char *>(boxes[0].pointer), 8 * MIB, 2);
  OK(cudaDeviceSynchronize());
  is_taken(before, 24 * MIB);
  OK(cudaFree(own));
  is_taken(before, 8 * MIB);
  OK(cudaFree(boxes[0].pointer));
  is_taken(before, 0);
}

// A program that takes nearly all that it was told gets it, and no more than the device has.
static void nearly_all() {
  size_t bytes = left() / 10 * 9, before = left();
  char *most = nullptr;
  OK(cudaMalloc(&most, bytes));
  mark<<<1, 256>>>(most, bytes, 3);
  char last = 0;
  OK(cudaMemcpy(&last, most + bytes - 1, 1, cudaMemcpyDeviceToHost));
  EXPECT(last == 3);
  is_taken(before, bytes);
  void *more = nullptr;
  IS(cudaMalloc(&more, before), cudaErrorMemoryAllocation);
  cudaGetLastError();
  OK(cudaFree(most));
  is_taken(before, 0);
}

// The same with objects that cannot all be seen in one place.
static void nearly_all_in_pieces() {
  size_t before = left(), piece = before / 10 / (2 * MIB) * (2 * MIB);
  for (int i = 0; i < 8; i++) {
    boxes[i].pointer = reinterpret_cast<unsigned char *>(object(piece));
    mark<<<1, 256>>>(reinterpret_cast<char *>(boxes[i].pointer), piece, char(i));
  }
  OK(cudaDeviceSynchronize());
  void *more = nullptr;
  IS(cudaMalloc(&more, before), cudaErrorMemoryAllocation);
  cudaGetLastError();
  for (int i = 0; i < 8; i++) {
    char last = 0;
    OK(cudaMemcpy(&last, boxes[i].pointer + piece - 1, 1, cudaMemcpyDeviceToHost));
    EXPECT(last == i);
    OK(cudaFree(boxes[i].pointer));
  }
  is_taken(before, 0);
}

// mgb: only asks, and then has nothing on any GPU.
static void only_asks() {
  EXPECT(left() > 0);
  printf("asked\n");
  fflush(stdout);
  getchar();
}

int main(int argc, char **argv) {
  const Case cases[] = {CASE(static_objects), CASE(lazy_objects),         CASE(both_kinds),
                        CASE(nearly_all),     CASE(nearly_all_in_pieces), CASE(only_asks)};
  return play(argc, argv, cases);
}
