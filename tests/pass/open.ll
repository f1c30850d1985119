; CUDA that does not go through MGB makes the process open: it says so before main, and the report why.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
; RUN: %report | FileCheck %s --check-prefix=REPORT
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
source_filename = "open.cu"

; CHECK-DAG: @llvm.global_ctors = appending global {{.*}} { i32 101, ptr @mgb.open, ptr null }
; CHECK-DAG: @mgb.reason = {{.*}}the program calls the CUDA driver API
; REPORT: module open.cu
; REPORT-NEXT: open: open-process: the program calls the CUDA driver API
; REPORT-NEXT: open: open-process: cuBLAS uses CUDA by itself
; REPORT-NEXT: open: open-process: cudaFutureCall is not in the catalogue
; REPORT-NEXT: open: open-process: NVRTC uses CUDA by itself
; REPORT-NEXT: open: open-process: dlopen may load a library that uses CUDA
; REPORT-NOT: open-process

declare i32 @cuInit(i32)
declare i32 @cuMemAlloc_v2(ptr, i64)
declare i32 @cuMemFree_v2(i64)
declare i32 @cublasCreate_v2(ptr)
declare i32 @cudaFutureCall()
declare i32 @curious(ptr)
declare i32 @cudaUnused()
declare i32 @cudaFree(ptr)
declare i32 @nvrtcVersion(ptr, ptr)
declare ptr @dlopen(ptr, i32)

; lazyrt is notified before the calls of a library. Contexts of the driver are the program's own, NVRTC only compiles; but before
; the driver is initialised, or a library loaded that may be it, the process gets its GPU.
; CHECK-LABEL: define i32 @f
; CHECK: call void @mgb_before_driver()
; CHECK-NEXT: call i32 @cuInit
; CHECK-NOT: call void @mgb_before_driver
; CHECK-NOT: call void @mgb_before_library
; CHECK: call i32 @cuMemFree_v2
; CHECK-NEXT: call void @mgb_before_library()
; CHECK-NEXT: call i32 @cublasCreate_v2
; CHECK-NEXT: call void @mgb_before_library()
; CHECK-NEXT: call i32 @cudaFutureCall
; CHECK-NOT: call void @mgb_before_library
; CHECK: call void @mgb_before_driver()
; CHECK-NEXT: call ptr @dlopen
; CHECK: ret i32
define i32 @f(ptr %p) {
  %init = call i32 @cuInit(i32 0)
  %1 = call i32 @cuMemAlloc_v2(ptr %p, i64 64)
  %2 = call i32 @cuMemFree_v2(i64 0)
  %3 = call i32 @cublasCreate_v2(ptr %p)
  %4 = call i32 @cudaFutureCall()
  %5 = call i32 @curious(ptr %p)
  %6 = call i32 @nvrtcVersion(ptr %p, ptr %p)
  %7 = call ptr @dlopen(ptr %p, i32 1)
  %8 = call i32 @cudaFree(ptr null)
  ret i32 %5
}

; CHECK: define internal void @mgb.open()
; CHECK: call void @mgb_module_open(ptr @mgb.reason)
