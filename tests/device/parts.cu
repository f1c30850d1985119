// Which kernels can be run in parts, and why others cannot. The twin takes tickets, one for each worker where threads return
// before barriers; a structure passed by value is each block's own; what finds out about its block is
// copied. Without MGB_PARTS nothing is added.
// RUN: rm -rf %t.side && mkdir -p %t.side
// RUN: %device-ir --cuda-gpu-arch=sm_90 %s > %t.90.ll
// RUN: env MGB_PARTS=1 MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify %t.90.ll | FileCheck %s --check-prefix=DEVICE
// RUN: env MGB_PARTS=1 MGB_SIDE_DIR=%t.side %opt -passes='mgb,default<O3>,verify' %t.90.ll -disable-output
// RUN: env MGB_PARTS=1 MGB_SIDE_DIR=%t.side %opt -passes='mgb,default<O2>,function(print<cycles>)' %t.90.ll -disable-output 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LOOPS
// RUN: %host-ir %s | env MGB_SIDE_DIR=%t.side %opt -passes=mgb,verify -o %t.ll
// RUN: %report | FileCheck %s
// RUN: FileCheck %s --check-prefix=HOST < %t.ll
// RUN: env MGB_PARTS=off MGB_SIDE_DIR=%t.side %opt -passes=mgb %t.90.ll | FileCheck %s --check-prefix=OFF
// OFF-NOT: __mgb_twin
// No loop is entered in two places, which the optimiser would make of the ticket loop: ptxas then lets the lanes of a
// warp run apart from each other, and an H200 left some blocks of theirs out.
// LOOPS-NOT: entries({{.* .*}})
// LOOPS: function: __mgb_twin_plain
// LOOPS-NEXT: depth=1: entries(parts.take)
// LOOPS-NOT: entries({{.* .*}})
#include "cuda.h"

#define BLOCK __nvvm_read_ptx_sreg_ctaid_x()
#define BLOCKS __nvvm_read_ptx_sreg_nctaid_x()
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define THREADS __nvvm_read_ptx_sreg_ntid_x()
#define MEET __syncthreads()
#define SHUFFLE(value) __nvvm_shfl_sync_bfly_i32(0xffffffff, value, 1, 31)

// CHECK-DAG: kernel plain: twin
// HOST-DAG: call void @mgb_register_twin(ptr {{.*}}, ptr @__device_stub__plain, ptr @mgb.twin.stub{{.*}}, ptr @mgb.twin{{.*}}, ptr @mgb.twin.sizes{{.*}}, i32 2, i32 0, i32 0)
// HOST-DAG: call void @mgb_forget_twins(
// Its threads have nothing in common: they meet for the next ticket alone.
// DEVICE-LABEL: define dso_local ptx_kernel void @__mgb_twin_plain(
// One worker asks whether the process is gone, before it looks at its ticket.
// DEVICE: br i1 {{.*}}, label %parts.look, label %parts.meet
// DEVICE: parts.look:
// DEVICE-NEXT: br i1 {{.*}}, label %parts.ask, label %parts.compare
// DEVICE: load volatile i32
// DEVICE: atomicrmw or ptr
// DEVICE: parts.meet:
// DEVICE: call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
// DEVICE: parts.end:
// DEVICE-NEXT: call void @llvm.nvvm.bar.warp.sync(i32 -1)
// DEVICE-NOT: barrier
// DEVICE: br label %parts.begin
// DEVICE: parts.last:
// DEVICE-NEXT: call void @llvm.nvvm.bar.warp.sync(i32 -1)
// DEVICE-NEXT: call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
extern "C" __global__ void plain(int *x, int n) {
  int i = BLOCK * THREADS + THREAD;
  if (i < n)
    x[i] = BLOCKS;
}

// A GPU's barrier counts threads that have ended, but not such as wait elsewhere: workers take one ticket.
// CHECK-DAG: kernel returns_early: slices barrier-apart
// HOST-DAG: call void @mgb_register_twin(ptr {{.*}}, ptr @__device_stub__returns_early, ptr @mgb.twin.stub{{.*}}, ptr @mgb.twin{{.*}}, ptr @mgb.twin.sizes{{.*}}, i32 2, i32 1, i32 0)
// DEVICE-LABEL: define dso_local ptx_kernel void @__mgb_twin_returns_early(
// DEVICE: call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
// DEVICE-NOT: parts.end:
// DEVICE: call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
// DEVICE-NOT: parts.end:
extern "C" __global__ void returns_early(int *x, int n) {
  if (THREAD >= n)
    return;
  MEET;
  x[THREAD] = x[THREAD ^ 1];
}

// Whether it returns is the same for the whole block.
// CHECK-DAG: kernel returns_as_a_block: twin
// DEVICE-LABEL: define dso_local ptx_kernel void @__mgb_twin_returns_as_a_block(
// DEVICE: parts.end:
// DEVICE-NEXT: call void @llvm.nvvm.bar.warp.sync(i32 -1)
// DEVICE-NEXT: call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
// DEVICE: br label %parts.begin, !llvm.loop [[BLOCKS:![0-9]+]]
// DEVICE: parts.last:
// DEVICE-NEXT: br label %parts.take, !llvm.loop [[LOOP:![0-9]+]]
extern "C" __global__ void returns_as_a_block(int *x, int n) {
  if (BLOCK * 2 >= n)
    return;
  MEET;
  x[THREAD] = x[THREAD ^ 1];
}

// A turn of the loop may differ for threads, and so may what they find behind it.
// CHECK-DAG: kernel turns_differ: slices barrier-apart
extern "C" __global__ void turns_differ(int *x, int n) {
  int turns = 0;
  for (int i = THREAD; i < n; i += THREADS)
    turns++;
  if (turns == 0)
    return;
  MEET;
  x[THREAD] = turns;
}

struct Part {
  int words[4];
};
// DEVICE-LABEL: define dso_local ptx_kernel void @__mgb_twin_writes_structure(
// DEVICE: parts.entry:
// DEVICE: [[OWN:%.*]] = alloca %struct.Part
// DEVICE: call void @llvm.memcpy{{.*}}[[OWN]]
extern "C" __global__ void writes_structure(int *x, Part part) {
  part.words[THREAD & 3] += 1;
  x[BLOCK] = part.words[0];
}

static __device__ __attribute__((noinline)) int where() { return BLOCK * 2; }
// DEVICE-LABEL: define dso_local ptx_kernel void @__mgb_twin_asks_elsewhere(
// DEVICE: call {{.*}}i32 @__mgb_part_{{.*}}where{{.*}}(i32 {{.*}}, i32 {{.*}}, i32
extern "C" __global__ void asks_elsewhere(int *x) { x[where()] = 1; }

// CHECK-DAG: kernel last_warp: twin
// HOST-DAG: call void @mgb_register_twin(ptr {{.*}}, ptr @__device_stub__last_warp, ptr @mgb.twin.stub{{.*}}, ptr @mgb.twin{{.*}}, ptr @mgb.twin.sizes{{.*}}, i32 1, i32 0, i32 1)
extern "C" __global__ void last_warp(int *x) {
  if (THREAD < 32)
    x[THREAD] = SHUFFLE(x[THREAD]);
}

// CHECK-DAG: kernel warp_returns: slices warp-after-exit
extern "C" __global__ void warp_returns(int *x, int n) {
  if (THREAD >= n)
    return;
  x[THREAD] = SHUFFLE(x[THREAD]);
}

// Lanes that skip it wait at the barrier behind it, and return later.
// CHECK-DAG: kernel warp_meets: twin
extern "C" __global__ void warp_meets(int *x, int n) {
  if (THREAD < n)
    x[THREAD] = SHUFFLE(x[THREAD]);
  MEET;
  x[THREAD] += 1;
}

// CHECK-DAG: kernel counts: slices barrier-apart
extern "C" __global__ void counts(int *x, int n) {
  if (THREAD >= n)
    return;
  x[BLOCK] = __nvvm_bar0_popc(x[THREAD]);
}

// CHECK-DAG: kernel counts_together: twin
extern "C" __global__ void counts_together(int *x) {
  if (__nvvm_bar0_popc(x[THREAD]) > 3)
    return;
  MEET;
  x[THREAD] = 0;
}

// CHECK-DAG: kernel waits: whole waits-for-blocks
extern "C" __global__ void waits(volatile int *x) {
  while (x[0] == 0)
    ;
}

// A lock: the other block writes what is waited for.
// CHECK-DAG: kernel locks: whole waits-for-blocks
extern "C" __global__ void locks(int *x) {
  while (__sync_val_compare_and_swap(x, 0, 1) != 0)
    ;
  x[1]++;
  __sync_lock_test_and_set(x, 0);
}

// By way of shared memory, of a branch, of an array, of a plain load behind a fence.
// CHECK-DAG: kernel waits_shared: whole waits-for-blocks
extern "C" __global__ void waits_shared(int *x, int n) {
  static __device__ __attribute__((shared)) int seen;
  do {
    MEET;
    if (THREAD == 0)
      seen = __sync_fetch_and_add(x, 0);
    MEET;
  } while (seen < n);
}

// CHECK-DAG: kernel waits_branch: whole waits-for-blocks
extern "C" __global__ void waits_branch(volatile int *x) {
  int n = 0;
  while (n < 3)
    if (x[n] != 0)
      n++;
}

// CHECK-DAG: kernel waits_plain: whole waits-for-blocks
extern "C" __global__ void waits_plain(int *x) {
  while (x[0] == 0)
    __nvvm_membar_gl();
}

// CHECK-DAG: kernel waits_in_assembly: whole waits-for-blocks
extern "C" __global__ void waits_in_assembly(int *x) {
  int seen;
  do
    asm volatile("ld.global.cv.u32 %0, [%1];" : "=r"(seen) : "l"(x));
  while (seen == 0);
}

// CHECK-DAG: kernel locks_in_turns: whole waits-for-blocks
extern "C" __global__ void locks_in_turns(int *x, int n) {
  while (1) {
    int seen = __sync_val_compare_and_swap(x, n, 0);
    if (seen == n)
      break;
  }
}

// It is tried again with what it has read, but ends by the value.
// CHECK-DAG: kernel waits_exchanging: whole waits-for-blocks
extern "C" __global__ void waits_exchanging(int *x, int n) {
  int old = 0, seen;
  do {
    seen = old;
    old = __sync_val_compare_and_swap(x, seen, seen);
  } while (old < n);
}

// What others write says what is done, not for how long.
// CHECK-DAG: kernel adds: twin
extern "C" __global__ void adds(int *x, const int *at, int n) {
  for (int i = THREAD; i < n; i += THREADS)
    if (__sync_fetch_and_add(&x[at[i]], 1) == 7)
      x[n] = i;
}

// CHECK-DAG: kernel half_votes: slices warp-after-exit
extern "C" __global__ void half_votes(int *x) {
  if (!__nvvm_vote_any_sync(THREAD & 16 ? 0xffff0000 : 0xffff, x[THREAD]))
    return;
  x[THREAD] = SHUFFLE(x[THREAD]);
}

// Lanes return behind a barrier that the others pass before they work together.
// CHECK-DAG: kernel returns_behind: slices barrier-apart warp-after-exit
extern "C" __global__ void returns_behind(int *x, int n) {
  if (THREAD >= n) {
    MEET;
    return;
  }
  MEET;
  x[THREAD] = SHUFFLE(x[THREAD]);
}

// CHECK-DAG: kernel sums_in_any_order: whole fast-math
extern "C" __global__ void sums_in_any_order(float *x) {
#pragma clang fp reassociate(on)
  x[THREAD] = x[0] + x[1] + x[2] * x[THREAD];
}

struct Large {
  char bytes[4088];
};
// CHECK-DAG: kernel takes_much: whole parameters
extern "C" __global__ void takes_much(int *x, Large large) { x[0] = large.bytes[7]; }

// It succeeds at last, whatever others do.
// CHECK-DAG: kernel retries: twin
extern "C" __global__ void retries(int *x) {
  int old = x[0], seen;
  do {
    seen = old;
    old = __sync_val_compare_and_swap(x, seen, seen * 3);
  } while (old != seen);
}

// CHECK-DAG: kernel exits: slices thread-exit
extern "C" __global__ void exits(int *x) {
  if (THREAD == 1)
    asm volatile("exit;");
  x[THREAD] = 1;
}

// CHECK-DAG: kernel asks_in_assembly: whole block-index-in-assembly
extern "C" __global__ void asks_in_assembly(int *x) { asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x[0])); }

extern "C" __device__ int elsewhere(int);
// CHECK-DAG: kernel calls: whole unknown-callee
extern "C" __global__ void calls(int *x) { x[0] = elsewhere(1); }

typedef int (*Function)(int);
// CHECK-DAG: kernel calls_pointer: whole unknown-callee
extern "C" __global__ void calls_pointer(int *x, Function f) { x[0] = f(1); }

__device__ __attribute__((shared)) int most[12 * 1024];
// CHECK-DAG: kernel fills: whole shared-memory
extern "C" __global__ void fills(int *x) {
  most[THREAD] = 1;
  x[THREAD] = most[THREAD ^ 1];
}

// Nothing moves out of the loop: a product that does is not contracted with a sum any more.
// DEVICE-DAG: [[LOOP]] = distinct !{[[LOOP]], [[HINT:![0-9]+]]}
// DEVICE-DAG: !{!"llvm.licm.disable"}
