; Begins and loops: outside of every loop that does not hold the allocations, however the loops are
; nested, and also where a loop has two entries.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaMemset(ptr, i32, i64)
declare i1 @more()

; CHECK-LABEL: define void @nested
; CHECK: outer:
; CHECK: mgb_cudaMalloc
; CHECK: mgb_task_begin
; CHECK: br label %middle
; CHECK: middle:
; CHECK-NOT: mgb_task_begin
; CHECK: done:
; CHECK: mgb_cudaFree
; CHECK: mgb_task_end
; CHECK: br i1
define void @nested(i64 %n) {
entry:
  %slot = alloca ptr
  br label %outer
outer:
  %e = call i32 @cudaMalloc(ptr %slot, i64 %n)
  br label %middle
middle:
  br label %inner
inner:
  %p = load ptr, ptr %slot
  %s = call i32 @cudaMemset(ptr %p, i32 0, i64 %n)
  %c1 = call i1 @more()
  br i1 %c1, label %inner, label %next
next:
  %c2 = call i1 @more()
  br i1 %c2, label %middle, label %done
done:
  %q = load ptr, ptr %slot
  %f = call i32 @cudaFree(ptr %q)
  %c3 = call i1 @more()
  br i1 %c3, label %outer, label %out
out:
  ret void
}

; CHECK-LABEL: define void @two_entries
; CHECK: entry:
; CHECK: mgb_cudaMalloc
; CHECK: mgb_task_begin
; CHECK: br i1 %c, label %a, label %b
define void @two_entries(i1 %c, i64 %n) {
entry:
  %slot = alloca ptr
  %e = call i32 @cudaMalloc(ptr %slot, i64 %n)
  br i1 %c, label %a, label %b
a:
  %p = load ptr, ptr %slot
  %s = call i32 @cudaMemset(ptr %p, i32 0, i64 %n)
  br label %b
b:
  %c1 = call i1 @more()
  br i1 %c1, label %a, label %out
out:
  %q = load ptr, ptr %slot
  %f = call i32 @cudaFree(ptr %q)
  ret void
}
