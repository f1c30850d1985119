// What a program does while different devices are current is never one static task, and a task begins with its own device
// current.
// RUN: %ir-O1 %s | %mgb -o %t.ll
// RUN: FileCheck %s --input-file=%t.ll
// RUN: %report | FileCheck %s --check-prefix=REPORT
#include "cuda.h"

extern "C" cudaError_t cudaSetDevice(int device);
extern "C" cudaError_t cudaGetDevice(int *device);

__global__ void work(int *x) {}
void elsewhere();
bool more();

// A device in each run of a loop.
// REPORT: task 1 lazy in spread(int, unsigned long)
// REPORT: why several-devices: its cudaMalloc and launch are on several devices
// CHECK-LABEL: define {{.*}} @_Z6spreadim
// CHECK-NOT: @mgb_task_begin
void spread(int devices, size_t n) {
  int *x[8];
  for (int i = 0; i < devices; i++) {
    cudaSetDevice(i);
    cudaMalloc(&x[i], n);
  }
  for (int i = 0; i < devices; i++) {
    cudaSetDevice(i);
    work<<<1, 1>>>(x[i]);
  }
}

// Two ways to one device: the point before both is under another.
// REPORT: task 2 lazy in ways(bool, unsigned long)
// REPORT: why several-devices: the task would have to begin before cudaSetDevice chooses its device
// CHECK-LABEL: define {{.*}} @_Z4waysbm
// CHECK-NOT: @mgb_task_begin
void ways(bool one, size_t n) {
  int *x;
  if (one) {
    more();
    cudaSetDevice(1);
    cudaMalloc(&x, n);
    work<<<1, 1>>>(x);
  } else {
    cudaSetDevice(1);
    cudaMalloc(&x, 2 * n);
    work<<<2, 1>>>(x);
  }
}

// A task on each of two devices, which take turns: the first one begins before the second device is chosen.
// REPORT: task 3 static in turns(unsigned long)
// REPORT: task 4 static in turns(unsigned long)
// CHECK-LABEL: define {{.*}} @_Z5turnsm
// CHECK: @mgb_cudaSetDevice(i32 noundef 0)
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.3
// CHECK: @mgb_cudaSetDevice(i32 noundef 1)
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.4
// CHECK: @mgb_cudaSetDevice(i32 noundef 0)
// CHECK-NOT: @mgb_task_begin
void turns(size_t n) {
  int *x, *y;
  cudaSetDevice(0);
  cudaMalloc(&x, n);
  cudaSetDevice(1);
  cudaMalloc(&y, n);
  while (more()) {
    cudaSetDevice(0);
    work<<<1, 1>>>(x);
    cudaSetDevice(1);
    work<<<1, 1>>>(y);
  }
  // Memory may be freed on any device.
  cudaFree(x);
  cudaFree(y);
}

// A task of each run of the loop, on the run's own device.
// REPORT: task 5 static in runs(int, unsigned long)
// CHECK-LABEL: define {{.*}} @_Z4runsim
// CHECK: @mgb_cudaSetDevice(i32 noundef %
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.5
// CHECK: call void @mgb_task_end
void runs(int devices, size_t n) {
  for (int i = 0; i < devices; i++) {
    int *x;
    cudaSetDevice(i);
    cudaMalloc(&x, n);
    work<<<1, 1>>>(x);
    cudaFree(x);
  }
}

struct Guard {
  int before;
  Guard(int device) {
    cudaGetDevice(&before);
    cudaSetDevice(device);
  }
  ~Guard() { cudaSetDevice(before); }
};

// A guard has the device be what it was.
// REPORT: task 6 static in guarded(unsigned long)
// REPORT-NEXT: object 1 x
// REPORT: task 7 static in guarded(unsigned long)
// REPORT-NEXT: object 1 y
void guarded(size_t n) {
  int *x, *y;
  cudaMalloc(&x, n);
  {
    Guard guard(1);
    cudaMalloc(&y, n);
    work<<<1, 1>>>(y);
  }
  work<<<1, 1>>>(x);
}

static void choose() {
  int device = 0;
  while (more())
    device++;
  cudaSetDevice(device);
}

static void look() {
  int before;
  cudaGetDevice(&before);
  while (more())
    cudaSetDevice(before + 1);
  cudaSetDevice(before);
}

// A function of this file may choose a device, and one that leaves it as it was does not; one of another file is taken to
// leave it, too.
// REPORT: task 8 lazy in chosen(unsigned long)
// REPORT: why several-devices
// REPORT: task 9 static in left(unsigned long)
void chosen(size_t n) {
  int *x;
  cudaMalloc(&x, n);
  choose();
  work<<<1, 1>>>(x);
}

void left(size_t n) {
  int *x;
  cudaMalloc(&x, n);
  look();
  elsewhere();
  work<<<1, 1>>>(x);
}

// Whichever device is chosen, it is one.
// REPORT: task 10 static in either(bool, unsigned long)
// CHECK-LABEL: define {{.*}} @_Z6eitherbm
// CHECK: @mgb_cudaSetDevice
// CHECK: call i64 @mgb_task_begin_in(ptr @mgb.site.10
void either(bool second, size_t n) {
  int *x;
  if (second)
    cudaSetDevice(1);
  cudaMalloc(&x, n);
  work<<<1, 1>>>(x);
}

// Memory of two devices that one call touches.
// REPORT: task 11 lazy in between(unsigned long)
// REPORT: why several-devices: its cudaMalloc calls are on several devices
void between(size_t n) {
  int *x, *y;
  cudaSetDevice(0);
  cudaMalloc(&x, n);
  cudaSetDevice(1);
  cudaMalloc(&y, n);
  cudaMemcpy(y, x, n, cudaMemcpyDefault);
}

// CUB's guard chooses a device and, where that was another, the one before again.
namespace cub {
struct SwitchDevice {
  int before;
  bool is_other;
  SwitchDevice(int device) {
    cudaGetDevice(&before);
    is_other = before != device;
    if (is_other)
      cudaSetDevice(device);
  }
  ~SwitchDevice() {
    if (is_other)
      cudaSetDevice(before);
  }
};
int version(int device) {
  SwitchDevice guard(device);
  return more();
}
} // namespace cub
// REPORT: task 12 static in through_cub(int, unsigned long)
void through_cub(int device, size_t n) {
  int *x;
  cudaMalloc(&x, n);
  work<<<cub::version(device), 1>>>(x);
}

// A process starts on its first device.
// REPORT: task 13 static in main
int main() {
  int *x;
  cudaMalloc(&x, 64);
  cudaSetDevice(0);
  work<<<1, 1>>>(x);
}
