; What every translated module starts from: where code finds its thread, and the
; calls into the software GPU. Offsets are those of softgpu/include/softgpu_image.h.

; Set by the software GPU for the calling OS thread, through the slots.
@softgpu.self = thread_local global ptr null
@softgpu.variables = thread_local global ptr null

define ptr @softgpu.self_slot() "softgpu-runtime" {
  %slot = call ptr @llvm.threadlocal.address.p0(ptr @softgpu.self)
  ret ptr %slot
}

define ptr @softgpu.variables_slot() "softgpu-runtime" {
  %slot = call ptr @llvm.threadlocal.address.p0(ptr @softgpu.variables)
  ret ptr %slot
}

; Shared memory that cooperative groups keep their own state in.
@softgpu.reserved = internal addrspace(3) global [1024 x i8] undef, align 128

; The running thread's state, and the device's block of variables. Within one
; function these never change, so the optimiser may merge and move the calls;
; afterwards slots.rs makes each a single load at the function's start.
declare ptr @softgpu.thread() #0
declare ptr @softgpu.block_variables() #0

; The service at an offset of softgpu_calls.
define ptr @softgpu.service(i64 %offset) alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %calls.at = getelementptr i8, ptr %self, i64 72
  %calls = load ptr, ptr %calls.at, align 8, !invariant.load !0
  %service.at = getelementptr i8, ptr %calls, i64 %offset
  %service = load ptr, ptr %service.at, align 8, !invariant.load !0
  ret ptr %service
}

; Another thread may have run on this OS thread meanwhile: puts the slot right.
define void @softgpu.resume(ptr %self) alwaysinline "softgpu-runtime" {
  %slot = call ptr @llvm.threadlocal.address.p0(ptr @softgpu.self)
  store ptr %self, ptr %slot, align 8
  ret void
}

define void @softgpu.barrier(i32 %id, i32 %threads) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 8)
  call void %service(ptr %self, i32 %id, i32 %threads)
  call void @softgpu.resume(ptr %self)
  ret void
}

define i32 @softgpu.barrier_reduce(i32 %id, i32 %kind, i32 %predicate) noinline "softgpu-runtime" "softgpu-waits" {
  %other = icmp ne i32 %id, 0
  br i1 %other, label %refuse, label %reduce
refuse:
  call void @softgpu.trap(ptr @softgpu.refused_barrier)
  unreachable
reduce:
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 16)
  %result = call i32 %service(ptr %self, i32 %kind, i32 %predicate)
  call void @softgpu.resume(ptr %self)
  ret i32 %result
}

@softgpu.refused_barrier = private constant [47 x i8] c"a reduction over a barrier other than number 0\00"

define void @softgpu.warp_sync(i32 %mask) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 24)
  call void %service(ptr %self, i32 %mask)
  call void @softgpu.resume(ptr %self)
  ret void
}

define i32 @softgpu.shuffle(i32 %kind, i32 %mask, i32 %value, i32 %lane, i32 %c, ptr %in_range) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 32)
  %result = call i32 %service(ptr %self, i32 %kind, i32 %mask, i32 %value, i32 %lane, i32 %c, ptr %in_range)
  call void @softgpu.resume(ptr %self)
  ret i32 %result
}

define i32 @softgpu.vote(i32 %kind, i32 %mask, i32 %predicate) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 40)
  %result = call i32 %service(ptr %self, i32 %kind, i32 %mask, i32 %predicate)
  call void @softgpu.resume(ptr %self)
  ret i32 %result
}

; Inlined: threads that ask at the same place are active together, and the service
; tells places apart by where it returns to.
define i32 @softgpu.active_mask() alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 48)
  %result = call i32 %service(ptr %self)
  call void @softgpu.resume(ptr %self)
  ret i32 %result
}

define void @softgpu.trap(ptr %what) noinline cold noreturn "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 56)
  call void %service(ptr %self, ptr %what)
  unreachable
}

define i32 @softgpu.vprintf(ptr %format, ptr %arguments) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 64)
  %result = call i32 %service(ptr %self, ptr %format, ptr %arguments)
  ret i32 %result
}

define void @softgpu.assert_fail(ptr %message, ptr %file, i32 %line, ptr %function) noinline cold "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 72)
  call void %service(ptr %self, ptr %message, ptr %file, i32 %line, ptr %function)
  ret void
}

define i64 @softgpu.clock() noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 80)
  %result = call i64 %service(ptr %self)
  ret i64 %result
}

define i64 @softgpu.global_timer() noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 88)
  %result = call i64 %service(ptr %self)
  ret i64 %result
}

; A named word of the thread's state; threadIdx and its like never change.
define i32 @softgpu.word(i64 %offset) alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %at = getelementptr i8, ptr %self, i64 %offset
  %word = load i32, ptr %at, align 4, !invariant.load !0
  ret i32 %word
}

; The start of the block's static (56) or dynamic (64) shared memory.
define ptr @softgpu.shared(i64 %offset) alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %at = getelementptr i8, ptr %self, i64 %offset
  %shared = load ptr, ptr %at, align 8, !invariant.load !0
  ret ptr %shared
}

attributes #0 = { nounwind willreturn nosync speculatable memory(none) }

!0 = !{}
