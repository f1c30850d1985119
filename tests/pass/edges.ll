; A task whose last op is under a condition ends on the edge that goes around it, which is critical: it
; is split, and the way that never saw the task does not come through there.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaMemset(ptr, i32, i64)
declare i32 @cudaFree(ptr)

; CHECK-LABEL: define void @around
define void @around(i1 %none, i1 %keep, i64 %n) {
entry:
  %slot = alloca ptr
  br i1 %none, label %out, label %run
; CHECK: run:
; CHECK: call i64 @mgb_task_begin
; CHECK: br i1 %keep, label %[[SPLIT:.*]], label %free
run:
  %e = call i32 @cudaMalloc(ptr %slot, i64 %n)
  %p = load ptr, ptr %slot
  %s = call i32 @cudaMemset(ptr %p, i32 0, i64 %n)
  br i1 %keep, label %out, label %free
; CHECK: free:
; CHECK: @mgb_cudaFree
; CHECK-NEXT: load
; CHECK-NEXT: call void @mgb_task_end
; CHECK: br label %out
free:
  %f = call i32 @cudaFree(ptr %p)
  br label %out
; CHECK: [[SPLIT]]:
; CHECK-NEXT: load
; CHECK-NEXT: call void @mgb_task_end
; CHECK: br label %out
; CHECK: out:
; CHECK-NEXT: ret void
out:
  ret void
}
