; The 8-bit formats: e4m3 has four bits of exponent and no infinity, e5m2 is the upper half of a half. A number that
; is too large becomes the largest one, as all of PTX's conversions to them have it.

; To nearest, ties to even. %fraction is the bits of the fraction, %least the exponent of the least normal number, as a
; float's bits have it, and %largest the largest number there is.
define internal i16 @softgpu.narrow_quarter(float %value, i32 %fraction, i32 %least, float %largest, i1 %relu) alwaysinline "softgpu-runtime" {
  %bits = bitcast float %value to i32
  %magnitude.bits = and i32 %bits, 2147483647
  %magnitude = bitcast i32 %magnitude.bits to float
  %over = fcmp ogt float %magnitude, %largest
  %kept = select i1 %over, float %largest, float %magnitude
  %kept.bits = bitcast float %kept to i32
  %exponent = lshr i32 %kept.bits, 23
  %binade = call i32 @llvm.umax.i32(i32 %exponent, i32 %least)
  ; The last bit of a float this large is worth what the last bit kept is: to add it is to round.
  %lift = sub i32 23, %fraction
  %high = add i32 %binade, %lift
  %large.bits = shl i32 %high, 23
  %large = bitcast i32 %large.bits to float
  %sum = fadd float %kept, %large
  %sum.bits = bitcast float %sum to i32
  %steps = sub i32 %sum.bits, %large.bits
  %above = sub i32 %binade, %least
  %start = shl i32 %above, %fraction
  %code = add i32 %start, %steps
  %up = lshr i32 %bits, 24
  %sign = and i32 %up, 128
  %signed = or i32 %code, %sign
  %negative = icmp ne i32 %sign, 0
  %cut = and i1 %negative, %relu
  %number = select i1 %cut, i32 0, i32 %signed
  %none = fcmp uno float %value, 0.0
  %wide = select i1 %none, i32 127, i32 %number
  %result = trunc i32 %wide to i16
  ret i16 %result
}

define internal i16 @softgpu.pair_of_quarters(i16 %high, i16 %low) alwaysinline "softgpu-runtime" {
  %up = shl i16 %high, 8
  %result = or i16 %up, %low
  ret i16 %result
}

define i16 @softgpu.floats_to_e4m3(float %high, float %low, i1 %relu) alwaysinline "softgpu-runtime" {
  %h = call i16 @softgpu.narrow_quarter(float %high, i32 3, i32 121, float 448.0, i1 %relu)
  %l = call i16 @softgpu.narrow_quarter(float %low, i32 3, i32 121, float 448.0, i1 %relu)
  %result = call i16 @softgpu.pair_of_quarters(i16 %h, i16 %l)
  ret i16 %result
}

define i16 @softgpu.floats_to_e5m2(float %high, float %low, i1 %relu) alwaysinline "softgpu-runtime" {
  %h = call i16 @softgpu.narrow_quarter(float %high, i32 2, i32 113, float 57344.0, i1 %relu)
  %l = call i16 @softgpu.narrow_quarter(float %low, i32 2, i32 113, float 57344.0, i1 %relu)
  %result = call i16 @softgpu.pair_of_quarters(i16 %h, i16 %l)
  ret i16 %result
}

; Two halves, in one register.
define i16 @softgpu.halves_to_e4m3(i32 %halves, i1 %relu) alwaysinline "softgpu-runtime" {
  %pair = bitcast i32 %halves to <2 x half>
  %low.half = extractelement <2 x half> %pair, i32 0
  %high.half = extractelement <2 x half> %pair, i32 1
  %low = fpext half %low.half to float
  %high = fpext half %high.half to float
  %result = call i16 @softgpu.floats_to_e4m3(float %high, float %low, i1 %relu)
  ret i16 %result
}

define i16 @softgpu.halves_to_e5m2(i32 %halves, i1 %relu) alwaysinline "softgpu-runtime" {
  %pair = bitcast i32 %halves to <2 x half>
  %low.half = extractelement <2 x half> %pair, i32 0
  %high.half = extractelement <2 x half> %pair, i32 1
  %low = fpext half %low.half to float
  %high = fpext half %high.half to float
  %result = call i16 @softgpu.floats_to_e5m2(float %high, float %low, i1 %relu)
  ret i16 %result
}

; What is no number has one form; below zero is zero where that is asked for.
define internal i32 @softgpu.half_of_quarter(i32 %half, i32 %sign, i1 %none, i1 %relu) alwaysinline "softgpu-runtime" {
  %up = shl i32 %sign, 8
  %signed = or i32 %half, %up
  %negative = icmp ne i32 %sign, 0
  %cut = and i1 %negative, %relu
  %number = select i1 %cut, i32 0, i32 %signed
  %result = select i1 %none, i32 32767, i32 %number
  ret i32 %result
}

define internal i32 @softgpu.widen_e4m3(i16 %bits, i1 %relu) alwaysinline "softgpu-runtime" {
  %wide = zext i16 %bits to i32
  %magnitude = and i32 %wide, 127
  %sign = and i32 %wide, 128
  ; As a half's bits these stand for a 256th of the number, for the exponents differ by 8.
  %shifted = shl i32 %magnitude, 7
  %short = trunc i32 %shifted to i16
  %part = bitcast i16 %short to half
  %small = fpext half %part to float
  %whole = fmul float %small, 256.0
  %half = fptrunc float %whole to half
  %half.bits = bitcast half %half to i16
  %exact = zext i16 %half.bits to i32
  %none = icmp eq i32 %magnitude, 127
  %result = call i32 @softgpu.half_of_quarter(i32 %exact, i32 %sign, i1 %none, i1 %relu)
  ret i32 %result
}

define internal i32 @softgpu.widen_e5m2(i16 %bits, i1 %relu) alwaysinline "softgpu-runtime" {
  %wide = zext i16 %bits to i32
  %magnitude = and i32 %wide, 127
  %sign = and i32 %wide, 128
  %exact = shl i32 %magnitude, 8
  %none = icmp ugt i32 %magnitude, 124
  %result = call i32 @softgpu.half_of_quarter(i32 %exact, i32 %sign, i1 %none, i1 %relu)
  ret i32 %result
}

define i32 @softgpu.e4m3_to_halves(i16 %pair, i1 %relu) alwaysinline "softgpu-runtime" {
  %upper = lshr i16 %pair, 8
  %low = call i32 @softgpu.widen_e4m3(i16 %pair, i1 %relu)
  %high = call i32 @softgpu.widen_e4m3(i16 %upper, i1 %relu)
  %up = shl i32 %high, 16
  %result = or i32 %up, %low
  ret i32 %result
}

define i32 @softgpu.e5m2_to_halves(i16 %pair, i1 %relu) alwaysinline "softgpu-runtime" {
  %upper = lshr i16 %pair, 8
  %low = call i32 @softgpu.widen_e5m2(i16 %pair, i1 %relu)
  %high = call i32 @softgpu.widen_e5m2(i16 %upper, i1 %relu)
  %up = shl i32 %high, 16
  %result = or i32 %up, %low
  ret i32 %result
}
