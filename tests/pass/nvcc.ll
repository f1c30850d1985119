; What nvcc's front end writes: stubs launch through a function of CUDA's headers, a template's name hands on to its stub
; in two steps and by reference, a kernel of another file is declared by its own name. The module is named after its
; source, and with -rdc=true it is not open because of what nvcc's device linker writes.
; RUN: %mgb %s -o %t.ll
; RUN: FileCheck %s --input-file=%t.ll
; RUN: %report | FileCheck %s --check-prefix=REPORT
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
source_filename = "/tmp/tmpxft_00003739_00000000-6_app.cudafe1.cpp"

; CHECK: source_filename = "src/app.cu"
; REPORT: module src/app.cu
; REPORT-NOT: open

declare i32 @cudaMalloc(ptr, i64)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @__cudaGetKernel(ptr, ptr)
declare i32 @__cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @__cudaRegisterLinkedBinary_1234_app_cu(ptr, ptr, ptr, ptr)
declare void @_Z5therePii(ptr, i32)
declare void @_ZN6HelperC1Ei(ptr, i32)
declare void @_Z4makev(ptr sret(i64))
declare void @_Z7prepareiiv(i32)

define internal void @_ZL24__sti____cudaRegisterAllv() {
  call void @__cudaRegisterLinkedBinary_1234_app_cu(ptr null, ptr null, ptr null, ptr null)
  ret void
}

; CHECK-LABEL: define internal i32 @helper
; CHECK: call i32 @mgb___cudaLaunchKernel
define internal i32 @helper(ptr %k, i64 %a, i32 %b, i64 %c, i32 %d, ptr %args, i64 %s, ptr %stream) {
  %1 = call i32 @__cudaLaunchKernel(ptr %k, i64 %a, i32 %b, i64 %c, i32 %d, ptr %args, i64 %s, ptr %stream)
  ret i32 %1
}

define internal void @_ZL29__device_stub__Z2tkIfEvPT_S0_Pff(ptr %x, float %f) {
  %handle = alloca ptr
  %grid = alloca [12 x i8]
  %1 = call i32 @__cudaGetKernel(ptr %handle, ptr @_Z2tkIfEvPT_S0_)
  %2 = call i32 @__cudaPopCallConfiguration(ptr %grid, ptr %grid, ptr %grid, ptr %grid)
  %k = load ptr, ptr %handle
  %3 = call i32 @helper(ptr %k, i64 0, i32 0, i64 0, i32 0, ptr null, i64 0, ptr null)
  ret void
}
define internal void @_ZL25__wrapper__device_stub_tkIfEvRPT_RS0_(ptr %x, ptr %f) {
  %1 = load ptr, ptr %x
  %2 = load float, ptr %f
  call void @_ZL29__device_stub__Z2tkIfEvPT_S0_Pff(ptr %1, float %2)
  ret void
}
define linkonce_odr void @_Z2tkIfEvPT_S0_(ptr %x, float %f) {
  %x.addr = alloca ptr
  %f.addr = alloca float
  store ptr %x, ptr %x.addr
  store float %f, ptr %f.addr
  call void @_ZL25__wrapper__device_stub_tkIfEvRPT_RS0_(ptr %x.addr, ptr %f.addr)
  ret void
}

; REPORT: task 1 static in templates
; REPORT: op launch void tk<float>(float*, float) [1]
; REPORT: anchored: void tk<float>(float*, float) is compiled by nvcc
; CHECK-LABEL: define void @templates
; CHECK: mgb_task_begin
define void @templates() !dbg !4 {
  %slot = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %slot, i64 64)
  %p = load ptr, ptr %slot
  %2 = call i32 @__cudaPushCallConfiguration(i64 8589934595, i32 1, i64 17179869189, i32 1, i64 0, ptr null)
  call void @_Z2tkIfEvPT_S0_(ptr %p, float 1.0)
  ret void
}

; The other calls put the arguments together.
; REPORT: task 2 static in other_file
; REPORT: op launch there(int*, int) [1]
; REPORT: anchored: there(int*, int) is compiled in another file
; CHECK-LABEL: define void @other_file
; CHECK: mgb_task_begin
define void @other_file() {
  %slot = alloca ptr
  %temporary = alloca i64
  %1 = call i32 @cudaMalloc(ptr %slot, i64 64)
  %p = load ptr, ptr %slot
  %2 = call i32 @__cudaPushCallConfiguration(i64 4294967297, i32 1, i64 4294967297, i32 1, i64 0, ptr null)
  %failed = icmp ne i32 %2, 0
  br i1 %failed, label %skip, label %launch
skip:
  br label %end
launch:
  call void @_Z4makev(ptr sret(i64) %temporary)
  call void @_ZN6HelperC1Ei(ptr %temporary, i32 1)
  call void @_Z5therePii(ptr %p, i32 2)
  br label %end
end:
  ret void
}

; Two calls that may be the kernel: neither is taken for it.
; REPORT: task 3 lazy in either
; REPORT-NOT: op launch
define void @either() {
  %slot = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %slot, i64 64)
  %p = load ptr, ptr %slot
  %2 = call i32 @__cudaPushCallConfiguration(i64 4294967297, i32 1, i64 4294967297, i32 1, i64 0, ptr null)
  %failed = icmp ne i32 %2, 0
  br i1 %failed, label %end, label %launch
launch:
  call void @_Z7prepareiiv(i32 1)
  call void @_Z9elsewherePi(ptr %p)
  br label %end
end:
  ret void
}
declare void @_Z9elsewherePi(ptr)

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "/tmp/tmpxft_00003739_00000000-6_app.cudafe1.cpp", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DIFile(filename: "src/app.cu", directory: "/")
!4 = distinct !DISubprogram(name: "templates", scope: !3, file: !3, line: 1, unit: !0, spFlags: DISPFlagDefinition)
