; Device code of one file for the link: kernels of other files are declared as kernels, and the two names of a static
; variable that host code names late become one. Other functions, and variables that only look alike, stay.
; RUN: %opt -passes=mgb,verify %s | FileCheck %s
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

; CHECK-NOT: @_ZL3own =
; CHECK: @_ZL5other = external addrspace(1) global i32
; CHECK: @_ZL3own__static__0123456789abcdef = addrspace(1) externally_initialized global i32 0
; CHECK-NOT: @_ZL3own =
@_ZL3own = external addrspace(1) global i32
@_ZL5other = external addrspace(1) global i32
@_ZL3own__static__0123456789abcdef = addrspace(1) externally_initialized global i32 0
@_ZL5other__static__tail = addrspace(1) global i32 0
@calls = external addrspace(1) global i32
@__clang_gpu_used_external = internal global [2 x ptr] [ptr @launched, ptr addrspacecast (ptr addrspace(1) @calls to ptr)]
@llvm.compiler.used = appending global [1 x ptr] [ptr @__clang_gpu_used_external], section "llvm.metadata"

; CHECK: store i32 1, ptr addrspace(1) @_ZL3own__static__0123456789abcdef
; CHECK: store i32 2, ptr addrspace(1) @_ZL5other
define ptx_kernel void @kernel() {
  store i32 1, ptr addrspace(1) @_ZL3own
  store i32 2, ptr addrspace(1) @_ZL5other
  call void @called()
  ret void
}

; CHECK: declare ptx_kernel void @launched(ptr)
declare void @launched(ptr)
; CHECK: declare void @called()
declare void @called()
