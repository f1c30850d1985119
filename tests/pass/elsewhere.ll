; A kernel of another file: its stub is known by its name only. nvcc's stubs launch by handle, and the
; kernel's own name is a function that hands on to the stub.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
; RUN: %report | FileCheck %s --check-prefix=REPORT
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare i32 @cudaMalloc(ptr, i64)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @__cudaGetKernel(ptr, ptr)
declare i32 @__cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @_Z20__device_stub__thereRi(ptr)

; REPORT: task 1 static in other_file
; REPORT: op launch there(int&) [1]
; REPORT: anchored: there(int&) is compiled in another file
; CHECK-LABEL: define void @other_file
; CHECK: store i32 4, ptr %mgb.need.flags
; CHECK: ret void
define void @other_file() {
  %slot = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %slot, i64 64)
  %p = load ptr, ptr %slot
  %2 = call i32 @__cudaPushCallConfiguration(i64 4294967297, i32 1, i64 4294967297, i32 1, i64 0, ptr null)
  call void @_Z20__device_stub__thereRi(ptr %p)
  ret void
}

define internal void @__device_stub__Z4herePi(ptr %x) {
  %handle = alloca ptr
  %grid = alloca [12 x i8]
  %1 = call i32 @__cudaPopCallConfiguration(ptr %grid, ptr %grid, ptr %grid, ptr %grid)
  %2 = call i32 @__cudaGetKernel(ptr %handle, ptr @_Z4herePi)
  %k = load ptr, ptr %handle
  %3 = call i32 @__cudaLaunchKernel(ptr %k, i64 0, i32 0, i64 0, i32 0, ptr null, i64 0, ptr null)
  ret void
}
define void @_Z4herePi(ptr %x) {
  call void @__device_stub__Z4herePi(ptr %x)
  ret void
}

; REPORT: task 2 static in nvcc
; REPORT: op launch here(int*) [1]
; REPORT: grid: 6
; REPORT: block: 20
; CHECK-LABEL: define void @nvcc
; CHECK: mgb_task_begin
define void @nvcc() {
  %slot = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %slot, i64 64)
  %p = load ptr, ptr %slot
  %2 = call i32 @__cudaPushCallConfiguration(i64 8589934595, i32 1, i64 17179869189, i32 1, i64 0, ptr null)
  call void @_Z4herePi(ptr %p)
  ret void
}
