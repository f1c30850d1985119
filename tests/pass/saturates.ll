; Sums of sizes stop at the largest number: a need that overflows must not look like a small one. A size that
; no process has addresses for counts for nothing: it is not what will be asked for. What the program computes
; wraps as the program has it.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)

; CHECK-LABEL: define void @huge
; CHECK: %[[CAN:.*]] = icmp ult i64 %a, 140737488355328
; CHECK-NEXT: %[[A:.*]] = select i1 %[[CAN]], i64 %a, i64 0
; CHECK: %[[B:.*]] = select i1 %{{.*}}, i64 %b, i64 0
; CHECK: %[[SUM:.*]] = add i64 %[[A]], %[[B]]
; CHECK-NEXT: %[[WRAPS:.*]] = icmp ult i64 %[[SUM]], %[[A]]
; CHECK-NEXT: %[[PEAK:.*]] = select i1 %[[WRAPS]], i64 -1, i64 %[[SUM]]
; CHECK: and i64 %{{.*}}, -2097152
; CHECK: store i32 64, ptr %{{.*}}
; CHECK: store i64 %[[PEAK]], ptr %{{.*}}
; CHECK: call i64 @mgb_task_begin
define void @huge(i64 %a, i64 %b) {
  %x = alloca ptr
  %y = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %x, i64 %a)
  %2 = call i32 @cudaMalloc(ptr %y, i64 %b)
  %p = load ptr, ptr %x
  %q = load ptr, ptr %y
  %3 = call i32 @cudaMemcpy(ptr %p, ptr %q, i64 8, i32 3)
  ret void
}
