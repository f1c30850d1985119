; Compiled with CUDA 12's headers: what has another name in CUDA 13 gets it, what has other arguments or structures goes
; through lazyrt. Without the wrapper's word for it nothing of this is done.
; RUN: env MGB_CUDA_HEADERS=12.4 opt -load-pass-plugin=%plugin -passes=mgb,verify -S %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
; RUN: %report | FileCheck %s --check-prefix=REPORT
; RUN: %mgb %s | FileCheck %s --check-prefix=THIRTEEN
; RUN: sed s/cudaMemAdvise/cudaSetDoubleForHost/ %s > %t.removed.ll
; RUN: not env MGB_CUDA_HEADERS=12.4 opt -load-pass-plugin=%plugin -passes=mgb -S %t.removed.ll 2>&1 | FileCheck %s --check-prefix=REMOVED
; RUN: sed s/cudaMemAdvise/cudaMemPrefetchAsync_ptsz/ %s > %t.thread.ll
; RUN: not env MGB_CUDA_HEADERS=12.4 opt -load-pass-plugin=%plugin -passes=mgb -S %t.thread.ll 2>&1 | FileCheck %s --check-prefix=THREAD
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
source_filename = "twelve.cu"

; REMOVED: mgb: cudaSetDoubleForHost of CUDA 12.4 cannot run with CUDA 13's runtime, which MGB uses: CUDA 13 removed it
; THREAD: mgb: cudaMemPrefetchAsync_ptsz of CUDA 12.4 cannot run with CUDA 13's runtime

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaDeviceSynchronize()
declare i32 @cudaThreadSynchronize()
declare i32 @cudaEventElapsedTime_v2(ptr, ptr, ptr)
declare i32 @cudaGetDeviceProperties_v2(ptr, i32)
declare i32 @cudaMemPrefetchAsync(ptr, i64, i32, ptr)
declare i32 @cudaMemPrefetchAsync_v2(ptr, i64, i64, i32, ptr)
declare i32 @cudaMemAdvise(ptr, i64, i32, i32)

; Nothing here makes the process open.
; REPORT: module twelve.cu
; REPORT-NOT: open
; CHECK-LABEL: define i32 @f
; CHECK: call i32 @mgb_cudaDeviceSynchronize()
; CHECK-NEXT: call i32 @mgb_cudaDeviceSynchronize()
; CHECK-NEXT: call i32 @mgb_cudaEventElapsedTime(
; CHECK-NEXT: call i32 @mgb_cuda12_cudaGetDeviceProperties_v2(
; CHECK-NEXT: call i32 @mgb_cuda12_cudaMemPrefetchAsync(ptr %p, i64 8, i32 0, ptr null)
; CHECK-NEXT: call i32 @mgb_cudaMemPrefetchAsync(ptr %p, i64 8, i64 1, i32 0, ptr null)
; CHECK-NEXT: call i32 @mgb_cuda12_cudaMemAdvise(
; THIRTEEN: call i32 @cudaThreadSynchronize
define i32 @f(ptr %p) {
  %a = call i32 @cudaDeviceSynchronize()
  %b = call i32 @cudaThreadSynchronize()
  %c = call i32 @cudaEventElapsedTime_v2(ptr %p, ptr null, ptr null)
  %d = call i32 @cudaGetDeviceProperties_v2(ptr %p, i32 0)
  %e = call i32 @cudaMemPrefetchAsync(ptr %p, i64 8, i32 0, ptr null)
  %g = call i32 @cudaMemPrefetchAsync_v2(ptr %p, i64 8, i64 1, i32 0, ptr null)
  %h = call i32 @cudaMemAdvise(ptr %p, i64 8, i32 1, i32 0)
  ret i32 %h
}
