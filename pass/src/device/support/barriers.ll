; Barriers in shared memory (mbarrier): a word of 64 bits with the arrivals that are
; still wanted (bits 0 to 19), those of a whole phase (20 to 39), and the phase's number
; (from 40). A token is the word as it was when its thread arrived.

define void @softgpu.mbarrier_init(ptr %place, i32 %count) "softgpu-runtime" {
  %wanted = zext i32 %count to i64
  %whole = shl i64 %wanted, 20
  %word = or i64 %wanted, %whole
  store atomic i64 %word, ptr %place release, align 8
  ret void
}

define i64 @softgpu.mbarrier_arrive(ptr %place, i32 %count, i1 %drop) noinline "softgpu-runtime" {
entry:
  %less = zext i32 %count to i64
  %first = load atomic i64, ptr %place acquire, align 8
  br label %again
again:
  %old = phi i64 [ %first, %entry ], [ %seen, %again ]
  %wanted = and i64 %old, 1048575
  %left = sub i64 %wanted, %less
  %whole.up = lshr i64 %old, 20
  %whole = and i64 %whole.up, 1048575
  %fewer = sub i64 %whole, %less
  %next.whole = select i1 %drop, i64 %fewer, i64 %whole
  %phase = lshr i64 %old, 40
  %over = icmp eq i64 %left, 0
  %next.phase = add i64 %phase, 1
  %phase.then = select i1 %over, i64 %next.phase, i64 %phase
  %left.then = select i1 %over, i64 %next.whole, i64 %left
  %a = shl i64 %phase.then, 40
  %b = shl i64 %next.whole, 20
  %ab = or i64 %a, %b
  %new = or i64 %ab, %left.then
  %pair = cmpxchg ptr %place, i64 %old, i64 %new seq_cst seq_cst, align 8
  %seen = extractvalue { i64, i1 } %pair, 0
  %done = extractvalue { i64, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i64 %old
}

; Whether the phase that a token is of has ended.
define i1 @softgpu.mbarrier_token(ptr %place, i64 %token) "softgpu-runtime" {
  %word = load atomic i64, ptr %place acquire, align 8
  %phase = lshr i64 %word, 40
  %then = lshr i64 %token, 40
  %over = icmp ne i64 %phase, %then
  ret i1 %over
}

; Whether the phase of this parity has ended: whether the present one is of the other.
define i1 @softgpu.mbarrier_parity(ptr %place, i64 %parity) "softgpu-runtime" {
  %word = load atomic i64, ptr %place acquire, align 8
  %phase = lshr i64 %word, 40
  %now = and i64 %phase, 1
  %asked = and i64 %parity, 1
  %over = icmp ne i64 %now, %asked
  ret i1 %over
}

; A thread that would ask again at once lets others run first.
define void @softgpu.wait_a_little(i1 %over) alwaysinline "softgpu-runtime" {
  br i1 %over, label %end, label %wait
wait:
  call void @softgpu.yield()
  br label %end
end:
  ret void
}
