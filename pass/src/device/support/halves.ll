; The 16-bit formats: what the host's processor has no instructions for. A number of
; either is an integer here, so that no compiler looks for library functions of them.

; The neighbour of a 16-bit number, in the order of their values: above (1) or below (0).
define internal i16 @softgpu.neighbour(i16 %bits, i1 %above) alwaysinline "softgpu-runtime" {
  %magnitude = and i16 %bits, 32767
  %zero = icmp eq i16 %magnitude, 0
  %negative = icmp slt i16 %bits, 0
  %away = xor i1 %negative, %above
  %more = add i16 %bits, 1
  %less = sub i16 %bits, 1
  %step = select i1 %away, i16 %more, i16 %less
  %first = select i1 %above, i16 1, i16 -32767
  %result = select i1 %zero, i16 %first, i16 %step
  ret i16 %result
}

; A rounded number, put on the side that the mode asks for: 0 towards zero, 1 to nearest
; (as it is), 2 up, 3 down. %back is what the rounded number stands for.
define internal i16 @softgpu.directed(double %exact, double %back, i16 %bits, i32 %mode) alwaysinline "softgpu-runtime" {
  %too.high = fcmp ogt double %back, %exact
  %too.low = fcmp olt double %back, %exact
  %positive = fcmp ogt double %exact, 0.0
  %is.zero = icmp eq i32 %mode, 0
  %is.up = icmp eq i32 %mode, 2
  %is.down = icmp eq i32 %mode, 3
  %zero.down = and i1 %is.zero, %positive
  %not.positive = xor i1 %positive, true
  %zero.up = and i1 %is.zero, %not.positive
  %want.down = or i1 %is.down, %zero.down
  %want.up = or i1 %is.up, %zero.up
  %go.down = and i1 %want.down, %too.high
  %go.up = and i1 %want.up, %too.low
  %below = call i16 @softgpu.neighbour(i16 %bits, i1 false)
  %above = call i16 @softgpu.neighbour(i16 %bits, i1 true)
  %first = select i1 %go.down, i16 %below, i16 %bits
  %second = select i1 %go.up, i16 %above, i16 %first
  ret i16 %second
}

define i16 @softgpu.narrow_half(double %exact, i32 %mode) alwaysinline "softgpu-runtime" {
  %half = fptrunc double %exact to half
  %bits = bitcast half %half to i16
  %back = fpext half %half to double
  %result = call i16 @softgpu.directed(double %exact, double %back, i16 %bits, i32 %mode)
  ret i16 %result
}

; To nearest, ties to even; what is no number stays none.
define i16 @softgpu.float_to_brain(float %value) alwaysinline "softgpu-runtime" {
  %bits = bitcast float %value to i32
  %up = lshr i32 %bits, 16
  %odd = and i32 %up, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %high = lshr i32 %sum, 16
  %rounded = trunc i32 %high to i16
  %none = fcmp uno float %value, 0.0
  %result = select i1 %none, i16 32767, i16 %rounded
  ret i16 %result
}

; By way of a float whose last bit says that something was lost, so that no tie is seen
; where there is none.
define i16 @softgpu.narrow_brain(double %exact, i32 %mode) alwaysinline "softgpu-runtime" {
  %near = fptrunc double %exact to float
  %near.back = fpext float %near to double
  %near.bits = bitcast float %near to i32
  %same = fcmp ueq double %near.back, %exact
  %magnitude = call double @llvm.fabs.f64(double %exact)
  %near.magnitude = call double @llvm.fabs.f64(double %near.back)
  %over = fcmp ogt double %near.magnitude, %magnitude
  %less = sub i32 %near.bits, 1
  %toward = select i1 %over, i32 %less, i32 %near.bits
  %sticky = or i32 %toward, 1
  %odd.bits = select i1 %same, i32 %near.bits, i32 %sticky
  %odd = bitcast i32 %odd.bits to float
  %bits = call i16 @softgpu.float_to_brain(float %odd)
  %wide = zext i16 %bits to i32
  %up = shl i32 %wide, 16
  %single = bitcast i32 %up to float
  %back = fpext float %single to double
  %result = call i16 @softgpu.directed(double %exact, double %back, i16 %bits, i32 %mode)
  ret i16 %result
}

define internal float @softgpu.brain_to_float(i16 %bits) alwaysinline "softgpu-runtime" {
  %wide = zext i16 %bits to i32
  %up = shl i32 %wide, 16
  %result = bitcast i32 %up to float
  ret float %result
}

; One operation on two numbers: 0 add, 1 least, 2 greatest.
define internal float @softgpu.combine(float %a, float %b, i32 %operation) alwaysinline "softgpu-runtime" {
  %sum = fadd float %a, %b
  %least = call float @llvm.minnum.f32(float %a, float %b)
  %most = call float @llvm.maxnum.f32(float %a, float %b)
  %is.sum = icmp eq i32 %operation, 0
  %is.least = icmp eq i32 %operation, 1
  %other = select i1 %is.least, float %least, float %most
  %result = select i1 %is.sum, float %sum, float %other
  ret float %result
}

define internal i16 @softgpu.combine_half(i16 %a, i16 %b, i32 %operation) alwaysinline "softgpu-runtime" {
  %a.half = bitcast i16 %a to half
  %b.half = bitcast i16 %b to half
  %a.float = fpext half %a.half to float
  %b.float = fpext half %b.half to float
  %value = call float @softgpu.combine(float %a.float, float %b.float, i32 %operation)
  %half = fptrunc float %value to half
  %result = bitcast half %half to i16
  ret i16 %result
}

define internal i16 @softgpu.combine_brain(i16 %a, i16 %b, i32 %operation) alwaysinline "softgpu-runtime" {
  %a.float = call float @softgpu.brain_to_float(i16 %a)
  %b.float = call float @softgpu.brain_to_float(i16 %b)
  %value = call float @softgpu.combine(float %a.float, float %b.float, i32 %operation)
  %result = call i16 @softgpu.float_to_brain(float %value)
  ret i16 %result
}

define i16 @softgpu.atomic_half(ptr %place, i16 %value, i32 %operation) noinline "softgpu-runtime" {
entry:
  %first = load atomic i16, ptr %place monotonic, align 2
  br label %again
again:
  %old = phi i16 [ %first, %entry ], [ %seen, %again ]
  %new = call i16 @softgpu.combine_half(i16 %old, i16 %value, i32 %operation)
  %pair = cmpxchg ptr %place, i16 %old, i16 %new seq_cst monotonic, align 2
  %seen = extractvalue { i16, i1 } %pair, 0
  %done = extractvalue { i16, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i16 %old
}

define i32 @softgpu.atomic_half2(ptr %place, i32 %value, i32 %operation) noinline "softgpu-runtime" {
entry:
  %low.value = trunc i32 %value to i16
  %up.value = lshr i32 %value, 16
  %high.value = trunc i32 %up.value to i16
  %first = load atomic i32, ptr %place monotonic, align 4
  br label %again
again:
  %old = phi i32 [ %first, %entry ], [ %seen, %again ]
  %low.old = trunc i32 %old to i16
  %up.old = lshr i32 %old, 16
  %high.old = trunc i32 %up.old to i16
  %low = call i16 @softgpu.combine_half(i16 %low.old, i16 %low.value, i32 %operation)
  %high = call i16 @softgpu.combine_half(i16 %high.old, i16 %high.value, i32 %operation)
  %low.wide = zext i16 %low to i32
  %high.wide = zext i16 %high to i32
  %up = shl i32 %high.wide, 16
  %new = or i32 %up, %low.wide
  %pair = cmpxchg ptr %place, i32 %old, i32 %new seq_cst monotonic, align 4
  %seen = extractvalue { i32, i1 } %pair, 0
  %done = extractvalue { i32, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i32 %old
}

define i16 @softgpu.atomic_brain(ptr %place, i16 %value, i32 %operation) noinline "softgpu-runtime" {
entry:
  %first = load atomic i16, ptr %place monotonic, align 2
  br label %again
again:
  %old = phi i16 [ %first, %entry ], [ %seen, %again ]
  %new = call i16 @softgpu.combine_brain(i16 %old, i16 %value, i32 %operation)
  %pair = cmpxchg ptr %place, i16 %old, i16 %new seq_cst monotonic, align 2
  %seen = extractvalue { i16, i1 } %pair, 0
  %done = extractvalue { i16, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i16 %old
}

define i32 @softgpu.atomic_brain2(ptr %place, i32 %value, i32 %operation) noinline "softgpu-runtime" {
entry:
  %low.value = trunc i32 %value to i16
  %up.value = lshr i32 %value, 16
  %high.value = trunc i32 %up.value to i16
  %first = load atomic i32, ptr %place monotonic, align 4
  br label %again
again:
  %old = phi i32 [ %first, %entry ], [ %seen, %again ]
  %low.old = trunc i32 %old to i16
  %up.old = lshr i32 %old, 16
  %high.old = trunc i32 %up.old to i16
  %low = call i16 @softgpu.combine_brain(i16 %low.old, i16 %low.value, i32 %operation)
  %high = call i16 @softgpu.combine_brain(i16 %high.old, i16 %high.value, i32 %operation)
  %low.wide = zext i16 %low to i32
  %high.wide = zext i16 %high to i32
  %up = shl i32 %high.wide, 16
  %new = or i32 %up, %low.wide
  %pair = cmpxchg ptr %place, i32 %old, i32 %new seq_cst monotonic, align 4
  %seen = extractvalue { i32, i1 } %pair, 0
  %done = extractvalue { i32, i1 } %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i32 %old
}
