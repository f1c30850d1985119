//! The types that elements have, and those that sums are made in.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `cudaDataType`: what types are called in arguments.
#[allow(missing_docs, reason = "they have CUDA's names")]
pub mod data {
    pub const R_32F: i32 = 0;
    pub const R_64F: i32 = 1;
    pub const R_16F: i32 = 2;
    pub const R_8I: i32 = 3;
    pub const C_32F: i32 = 4;
    pub const C_64F: i32 = 5;
    pub const R_32I: i32 = 10;
    pub const R_16BF: i32 = 14;
}

/// A type of elements.
pub trait Number: Copy + Default + Send + 'static {
    /// The type in which this library computes: exact for every element.
    type Wide: Wide;
    /// The type of a size, `T` of `CcTT`: what `nrm2` and `asum` return.
    type Size: Number<Wide = f64>;
    /// Multiplications, each with an addition, that count as one instruction.
    const PER_INSTRUCTION: u64;
    /// Instructions that one multiplication with its addition counts as.
    const INSTRUCTIONS: u64;

    /// The element's value.
    fn wide(self) -> Self::Wide;
    /// The element that is nearest to a value.
    fn narrow(wide: Self::Wide) -> Self;
}

/// A type that sums are made in.
pub trait Wide:
    Copy
    + Send
    + 'static
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// The real and the imaginary part.
    fn parts(self) -> [f64; 2];
    /// A number without an imaginary part.
    fn real(real: f64) -> Self;
    /// The complex conjugate; of a real number, the number.
    fn conj(self) -> Self;

    /// The conjugate, if it is asked for.
    fn conj_if(self, wanted: bool) -> Self {
        if wanted { self.conj() } else { self }
    }
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<R> {
    /// The real part.
    pub re: R,
    /// The imaginary part.
    pub im: R,
}

/// `__half`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Half(pub u16);

/// `__nv_bfloat16`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Brain(pub u16);

impl Wide for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;

    fn parts(self) -> [f64; 2] {
        [self, 0.0]
    }

    fn real(real: f64) -> f64 {
        real
    }

    fn conj(self) -> f64 {
        self
    }
}

impl Wide for Complex<f64> {
    const ZERO: Self = Complex { re: 0.0, im: 0.0 };
    const ONE: Self = Complex { re: 1.0, im: 0.0 };

    fn parts(self) -> [f64; 2] {
        [self.re, self.im]
    }

    fn real(re: f64) -> Self {
        Complex { re, im: 0.0 }
    }

    fn conj(self) -> Self {
        Complex {
            re: self.re,
            im: -self.im,
        }
    }
}

impl Add for Complex<f64> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Complex {
            re: self.re + other.re,
            im: self.im + other.im,
        }
    }
}

impl Sub for Complex<f64> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Complex {
            re: self.re - other.re,
            im: self.im - other.im,
        }
    }
}

impl Neg for Complex<f64> {
    type Output = Self;
    fn neg(self) -> Self {
        Complex {
            re: -self.re,
            im: -self.im,
        }
    }
}

impl Mul for Complex<f64> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Complex {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl Div for Complex<f64> {
    type Output = Self;
    /// Scaled by the divisor's larger part, so that no square overflows.
    fn div(self, other: Self) -> Self {
        let scale = other.re.abs().max(other.im.abs());
        let (re, im) = (other.re / scale, other.im / scale);
        let size = (re * re + im * im) * scale;
        let product = self * Complex { re, im: -im };
        Complex {
            re: product.re / size,
            im: product.im / size,
        }
    }
}

/// Implements [`Number`]: the type, what it is computed in, its sizes, its rate, and its conversions.
macro_rules! number {
    ($($ty:ty, $wide:ty, $size:ty, $per:expr, $instructions:expr, $to:expr, $from:expr;)*) => {$(
        impl Number for $ty {
            type Wide = $wide;
            type Size = $size;
            const PER_INSTRUCTION: u64 = $per;
            const INSTRUCTIONS: u64 = $instructions;

            fn wide(self) -> $wide {
                let to: fn($ty) -> $wide = $to;
                to(self)
            }

            fn narrow(wide: $wide) -> $ty {
                let from: fn($wide) -> $ty = $from;
                from(wide)
            }
        }
    )*};
}

number! {
    f32, f64, f32, 1, 1, f64::from, |wide| wide as f32;
    f64, f64, f64, 1, 1, |own| own, |wide| wide;
    Half, f64, Half, 16, 1, half, |wide| Half(to_half(wide));
    Brain, f64, Brain, 16, 1, |own| f64::from(f32::from_bits(u32::from(own.0) << 16)),
        |wide| Brain(to_brain(wide));
    // Integers are exact up to 2^53, and wrap around where a sum does not fit.
    i8, f64, f32, 32, 1, f64::from, |wide| wide as i64 as i8;
    i32, f64, f32, 1, 1, f64::from, |wide| wide as i64 as i32;
    Complex<f32>, Complex<f64>, f32, 1, 4, |own| Complex { re: own.re.into(), im: own.im.into() },
        |wide| Complex { re: wide.re as f32, im: wide.im as f32 };
    Complex<f64>, Complex<f64>, f64, 1, 4, |own| own, |wide| wide;
}

/// 2 to a power of small size.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

fn half(Half(bits): Half) -> f64 {
    let fraction = u64::from(bits & 0x3ff);
    let size = match bits >> 10 & 0x1f {
        0x1f if fraction == 0 => f64::INFINITY,
        0x1f => f64::NAN,
        // As a double with the same fields, whose exponent is wrong by a factor.
        _ => f64::from_bits(u64::from(bits & 0x7fff) << 42) * power(1008),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

/// The bits of the nearest half; ties go to the even one.
fn to_half(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    sign | match number.abs() {
        size if size.is_nan() => 0x7fff,
        // From here on numbers round to infinity.
        size if size >= 65520.0 => 0x7c00,
        size => {
            // The distance of neighbours stays the same below 2^-14.
            let exponent = exponent(size).max(-14);
            let steps = (size * power(10 - exponent)).round_ties_even();
            // A fraction that has become 2 carries into the exponent.
            ((exponent + 14) as u16 * 1024).wrapping_add(steps as u16)
        }
    }
}

/// The bits of the nearest bfloat16; ties go to the even one.
fn to_brain(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    sign | match number.abs() {
        size if size.is_nan() => 0x7fff,
        size if size == f64::INFINITY => 0x7f80,
        size => {
            let exponent = exponent(size).clamp(-126, 128);
            let steps = (size * power(7 - exponent)).round_ties_even();
            // What is too large carries into the exponent of infinity, or would go beyond it.
            ((exponent + 126) * 128 + steps.min(256.0) as i32).min(0x7f80) as u16
        }
    }
}

fn exponent(size: f64) -> i32 {
    (size.to_bits() >> 52) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_number_is_its_own_nearest() {
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7fff <= 0x7c00) {
            assert_eq!(Half::narrow(Half(bits).wide()), Half(bits), "{bits:x}");
        }
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7fff <= 0x7f80) {
            assert_eq!(Brain::narrow(Brain(bits).wide()), Brain(bits), "{bits:x}");
        }
    }

    #[test]
    fn ties_go_to_the_even_number() {
        assert_eq!(Half::narrow(2049.0), Half(0x6800));
        assert_eq!(Half::narrow(2049.0 + 1e-12), Half(0x6801));
        assert_eq!(Half::narrow(2051.0), Half(0x6802));
        assert_eq!(Half::narrow(65519.99), Half(0x7bff));
        assert_eq!(Half::narrow(1e300), Half(0x7c00));
        assert_eq!(Brain::narrow(1.0 + 1.0 / 256.0), Brain(0x3f80));
        assert_eq!(Brain::narrow(1.0 + 1.0 / 256.0 + 1e-15), Brain(0x3f81));
        assert_eq!(Brain::narrow(-3.5e38), Brain(0xff80));
        assert_eq!(Brain::narrow(1e300), Brain(0x7f80));
    }

    #[test]
    fn complex_numbers_divide_without_overflow() {
        let (a, b) = (
            Complex {
                re: 3e200,
                im: -1e200,
            },
            Complex { re: 1e200, im: 2e200 },
        );
        let found = a / b;
        assert!(
            (found.re - 0.2).abs() < 1e-15 && (found.im + 1.4).abs() < 1e-15,
            "{found:?}"
        );
    }
}
