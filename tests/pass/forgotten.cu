// What programs do with device pointers and with the structures that hold them without keeping them: they
// compare, count and print addresses, and call functions that touch other members. Whatever may keep a pointer
// stays lazy.
// RUN: %ir-O0 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: %report | FileCheck %s
#include "cuda.h"

typedef unsigned long uintptr_t;
struct Image {
  int width, height;
  int *pixels;
  int *mask;
};
static int *kept;
int use(bool);
int random_number();

__global__ void work(int *x) {}

// CHECK: static in aligned()
bool aligned() {
  int *x, *y;
  cudaMalloc(&x, 64);
  cudaMalloc(&y, 64);
  bool is_aligned = (uintptr_t)x % 16 == 0 && ((uintptr_t)y & 15) == 0;
  use(is_aligned);
  use(x + 16 - x);
  work<<<1, 1>>>(is_aligned ? x : y);
  printf("%p\n", (void *)x);
  cudaFree(x);
  cudaFree(y);
  return is_aligned;
}

// An address that is rounded down is still one.
// CHECK: lazy in rounded()
// CHECK: why address-escapes: the pointer is converted to an integer
void rounded() {
  int *x;
  cudaMalloc(&x, 64);
  work<<<1, 1>>>((int *)((uintptr_t)x & ~(uintptr_t)255));
  cudaFree(x);
}

// Too large to be inlined: it touches other members.
#define TEN(what) what what what what what what what what what what
__attribute__((noinline)) static void set_size(Image *image, int n) {
  for (int i = 0; i < n; i++) {
    TEN(image->width += random_number();)
    TEN(image->height ^= random_number();)
    TEN(image->width -= random_number();)
  }
}
// CHECK: static in other_members(int)
// CHECK: op launch work(int*) [1]
void other_members(int n) {
  Image image;
  cudaMalloc(&image.pixels, 64);
  set_size(&image, n);
  work<<<image.width, 1>>>(image.pixels);
  cudaFree(image.pixels);
}

// The same with the pointer.
__attribute__((noinline)) static void keep(Image *image, int n) {
  for (int i = 0; i < n; i++) {
    TEN(image->width += random_number();)
    TEN(image->height ^= random_number();)
    TEN(image->width -= random_number();)
  }
  kept = image->pixels;
}
// CHECK: lazy in this_member(int)
// CHECK: why address-escapes: the address of a variable that holds device pointers goes to keep(Image*, int)
void this_member(int n) {
  Image image;
  cudaMalloc(&image.pixels, 64);
  keep(&image, n);
  work<<<1, 1>>>(image.pixels);
  cudaFree(image.pixels);
}

// It keeps the address of the structure.
static Image *last;
__attribute__((noinline)) static void remember(Image *image, int n) {
  for (int i = 0; i < n; i++) {
    TEN(image->width += random_number();)
    TEN(image->height ^= random_number();)
    TEN(image->width -= random_number();)
  }
  last = image;
}
// CHECK: lazy in remembered(int)
// CHECK: why address-escapes: the address of a variable that holds device pointers goes to remember(Image*, int)
void remembered(int n) {
  Image image;
  cudaMalloc(&image.pixels, 64);
  remember(&image, n);
  work<<<1, 1>>>(image.pixels);
  cudaFree(image.pixels);
}

// A member that is chosen at run time.
__attribute__((noinline)) static void any_member(int *words, int n) {
  for (int i = 0; i < n; i++) {
    TEN(words[i] += random_number();)
    TEN(words[i] ^= random_number();)
    TEN(words[i] -= random_number();)
  }
}
// CHECK: lazy in chosen_member(int)
// CHECK: why address-escapes: the address of a variable that holds device pointers goes to any_member(int*, int)
void chosen_member(int n) {
  Image image;
  cudaMalloc(&image.pixels, 64);
  any_member(&image.width, n);
  work<<<1, 1>>>(image.pixels);
  cudaFree(image.pixels);
}

// An address that moves on in a loop, with and without a variable for it.
__attribute__((noinline)) static void walk(int *from, int *to) {
  for (int *at = from; at != to; ++at) {
    TEN(*at += random_number();)
    TEN(*at ^= random_number();)
    TEN(*at -= random_number();)
  }
}
// CHECK: lazy in walked()
// CHECK: why address-escapes: the address of a variable that holds device pointers goes to walk(int*, int*)
void walked() {
  Image image;
  cudaMalloc(&image.pixels, 64);
  walk(&image.width, &image.height);
  work<<<1, 1>>>(image.pixels);
  cudaFree(image.pixels);
}

// A function that is given the pointer and compares it.
__attribute__((noinline)) static int count(int *x, int *y, int n) {
  int same = 0;
  for (int i = 0; i < n; i++) {
    TEN(same += x == y ? random_number() : 1;)
    TEN(same ^= random_number();)
    TEN(same += random_number();)
  }
  return same;
}
// CHECK: static in compared(int)
void compared(int n) {
  int *x;
  cudaMalloc(&x, 64);
  use(count(x, nullptr, n));
  work<<<1, 1>>>(x);
  cudaFree(x);
}
