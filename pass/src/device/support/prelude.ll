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
; How many bytes of these are constants: the first ones.
declare i64 @softgpu.constant_bytes() #0

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

define i32 @softgpu.barrier_reduce(i32 %id, i32 %threads, i32 %kind, i32 %predicate) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 16)
  %result = call i32 %service(ptr %self, i32 %id, i32 %threads, i32 %kind, i32 %predicate)
  call void @softgpu.resume(ptr %self)
  ret i32 %result
}

; Arrives without waiting.
define void @softgpu.barrier_arrive(i32 %id, i32 %threads) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 96)
  call void %service(ptr %self, i32 %id, i32 %threads)
  call void @softgpu.resume(ptr %self)
  ret void
}

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

; Multiplies matrices that the warp's lanes hold: this lane's registers are in `operands`, and its part of the
; result comes back there.
define void @softgpu.matrix(i64 %shape, ptr %operands) noinline "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.new_service(i64 136, i32 17, ptr @softgpu.matrix_text)
  call void %service(ptr %self, i64 %shape, ptr %operands)
  call void @softgpu.resume(ptr %self)
  ret void
}

; A service that software GPUs with fewer services than `least` lack: programs are newer than the software GPU
; where they run with another MGB's.
define ptr @softgpu.new_service(i64 %offset, i32 %least, ptr %text) alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %calls.at = getelementptr i8, ptr %self, i64 72
  %calls = load ptr, ptr %calls.at, align 8, !invariant.load !0
  %count.at = getelementptr i8, ptr %calls, i64 4
  %count = load i32, ptr %count.at, align 4, !invariant.load !0
  %there = icmp uge i32 %count, %least
  br i1 %there, label %found, label %lacking, !prof !2
found:
  %service = call ptr @softgpu.service(i64 %offset)
  ret ptr %service
lacking:
  call void @softgpu.trap(ptr %text)
  unreachable
}

@softgpu.matrix_text = private constant [63 x i8] c"matrix instructions, which this older software GPU does not do\00"

; Threads that ask at the same place are active together; places are numbered before the code is
; optimised: copies of a place are the same.
define i32 @softgpu.active_mask() alwaysinline "softgpu-runtime" {
  %result = call i32 @softgpu.active_mask_at(i32 0)
  ret i32 %result
}

define i32 @softgpu.active_mask_at(i32 %site) noinline nomerge "softgpu-runtime" "softgpu-waits" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 48)
  %result = call i32 %service(ptr %self, i32 %site)
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

; Lets other threads and blocks run: this one waits for what they do.
define void @softgpu.yield() noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 104)
  call void %service(ptr %self)
  call void @softgpu.resume(ptr %self)
  ret void
}

; One more look at memory that others write, in a loop. A thread that sees the same in the
; same place again and again waits for it to change: from time to time others get a turn.
define void @softgpu.poll(ptr %place, i64 %value) alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %count.at = getelementptr i8, ptr %self, i64 96
  %value.at = getelementptr i8, ptr %self, i64 112
  %place.at = getelementptr i8, ptr %self, i64 120
  %count = load i32, ptr %count.at, align 4
  %old.value = load i64, ptr %value.at, align 8
  %old.place = load ptr, ptr %place.at, align 8
  %same.value = icmp eq i64 %old.value, %value
  %same.place = icmp eq ptr %old.place, %place
  %same = and i1 %same.value, %same.place
  %more = add i32 %count, 1
  %now = select i1 %same, i32 %more, i32 0
  store i32 %now, ptr %count.at, align 4
  store i64 %value, ptr %value.at, align 8
  store ptr %place, ptr %place.at, align 8
  %turn = and i32 %now, 63
  %due = icmp eq i32 %turn, 63
  br i1 %due, label %yield, label %end, !prof !1
yield:
  call void @softgpu.yield()
  br label %end
end:
  ret void
}

define void @softgpu.sleep(i32 %nanoseconds) alwaysinline "softgpu-runtime" {
  call void @softgpu.yield()
  ret void
}

; Ends the thread.
define void @softgpu.exit() noinline cold noreturn "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 112)
  call void %service(ptr %self)
  unreachable
}

define ptr @softgpu.allocate(i64 %bytes) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 120)
  %result = call ptr %service(ptr %self, i64 %bytes)
  ret ptr %result
}

define void @softgpu.release(ptr %memory) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.service(i64 128)
  call void %service(ptr %self, ptr %memory)
  ret void
}

; Textures and surfaces: softgpu_image.h says what the numbers are.
define void @softgpu.texture(i64 %object, i32 %geometry, i32 %kind, ptr %at, ptr %result) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.new_service(i64 144, i32 20, ptr @softgpu.texture_text)
  call void %service(ptr %self, i64 %object, i32 %geometry, i32 %kind, ptr %at, ptr %result)
  ret void
}

define void @softgpu.surface_read(i64 %object, i32 %geometry, i32 %mode, ptr %at, i32 %bytes, ptr %to) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.new_service(i64 152, i32 20, ptr @softgpu.texture_text)
  call void %service(ptr %self, i64 %object, i32 %geometry, i32 %mode, ptr %at, i32 %bytes, ptr %to)
  ret void
}

define void @softgpu.surface_write(i64 %object, i32 %geometry, i32 %mode, ptr %at, i32 %bytes, ptr %from) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.new_service(i64 160, i32 20, ptr @softgpu.texture_text)
  call void %service(ptr %self, i64 %object, i32 %geometry, i32 %mode, ptr %at, i32 %bytes, ptr %from)
  ret void
}

@softgpu.texture_text = private constant [65 x i8] c"textures and surfaces, which this older software GPU does not do\00"

@softgpu.trap_text = private constant [9 x i8] c"__trap()\00"

define void @softgpu.trapped() noinline cold noreturn "softgpu-runtime" {
  call void @softgpu.trap(ptr @softgpu.trap_text)
  unreachable
}

; The space that an address is of: 0 shared, 1 the thread's own, 2 device memory, 3 constants.
define i1 @softgpu.is_space(ptr %place, i32 %space) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %start = call ptr @softgpu.shared(i64 56)
  %end.at = getelementptr i8, ptr %self, i64 88
  %end = load ptr, ptr %end.at, align 8
  %after = icmp uge ptr %place, %start
  %before = icmp ult ptr %place, %end
  %shared = and i1 %after, %before
  %there = ptrtoint ptr %place to i64
  %variables = call ptr @softgpu.block_variables()
  %constants = call i64 @softgpu.constant_bytes()
  %variables.start = ptrtoint ptr %variables to i64
  %into.variables = sub i64 %there, %variables.start
  %constant = icmp ult i64 %into.variables, %constants
  switch i32 %space, label %asks.constant [
    i32 0, label %asks.shared
    i32 1, label %asks.own
    i32 2, label %asks.device
  ]
asks.shared:
  ret i1 %shared
asks.constant:
  ret i1 %constant
asks.own:
  %own = call i1 @softgpu.is_local(ptr %place)
  ret i1 %own
asks.device:
  %either = or i1 %shared, %constant
  br i1 %either, label %of.others, label %of.device
of.others:
  ret i1 false
of.device:
  %local = call i1 @softgpu.is_local(ptr %place)
  %device = xor i1 %local, true
  ret i1 %device
}

; Whether an address is of the thread's own variables: only the software GPU knows where its stack ends.
define i1 @softgpu.is_local(ptr %place) noinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %service = call ptr @softgpu.new_service(i64 168, i32 21, ptr @softgpu.local_text)
  %answer = call i32 %service(ptr %self, ptr %place)
  %result = icmp ne i32 %answer, 0
  ret i1 %result
}

@softgpu.local_text = private constant [70 x i8] c"the question for local addresses, which this older software GPU lacks\00"

; The workspace of a cooperative launch, which its grid barrier lies in; null of others.
define i64 @softgpu.workspace() alwaysinline "softgpu-runtime" {
  %self = call ptr @softgpu.thread()
  %at = getelementptr i8, ptr %self, i64 104
  %workspace = load i64, ptr %at, align 8
  ret i64 %workspace
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
!1 = !{!"branch_weights", i32 1, i32 255}
!2 = !{!"branch_weights", i32 255, i32 1}
