; Every use of the runtime goes to lazyrt: calls, addresses, registration, and functions that are not
; treated in any way. What the module defines itself keeps its name.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll --implicit-check-not='@cuda{{[A-Z]}}' --implicit-check-not=@__cudaRegister
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK: @table = global [2 x ptr] [ptr @mgb_cudaMalloc, ptr @mgb_cudaFree]
@table = global [2 x ptr] [ptr @cudaMalloc, ptr @cudaFree]
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @__cuda_module_ctor, ptr null }]

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaIpcCloseMemHandle(ptr)
declare ptr @__cudaRegisterFatBinary(ptr)
declare i32 @mgb_cudaGetLastError()
declare i32 @cudaGetLastError()

; CHECK: define internal void @__cuda_module_ctor
; CHECK: call ptr @mgb___cudaRegisterFatBinary
define internal void @__cuda_module_ctor() {
  %1 = call ptr @__cudaRegisterFatBinary(ptr null)
  ret void
}

; CHECK: define i32 @uses
; CHECK: @mgb_cudaIpcCloseMemHandle
; CHECK: call i32 @mgb_cudaGetLastError
; CHECK: call i32 @mgb_cudaGetLastError
; CHECK: ret ptr @mgb_cudaMalloc
define i32 @uses(ptr %p) {
  %1 = call i32 @cudaIpcCloseMemHandle(ptr %p)
  %2 = call i32 @mgb_cudaGetLastError()
  %3 = call i32 @cudaGetLastError()
  ret i32 %3
}
define ptr @address() {
  ret ptr @cudaMalloc
}

; CHECK: define i32 @cudart_like
define i32 @cudart_like() {
  ret i32 0
}
