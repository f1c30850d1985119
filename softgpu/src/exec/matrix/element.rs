//! The elements of matrices: from the bits of registers to numbers, and back.

use mgb_abi::matrix::ElementType::{self, *};

/// What the bits of an element are.
pub trait Values {
    /// Whether elements are integers.
    fn is_integer(&self) -> bool;
    /// The number that an element's bits are. Exact: all of these types are part of a double.
    fn real(self, bits: u64) -> f64;
    /// The integer that an element's bits are.
    fn integer(self, bits: u64) -> i64;
    /// The bits of the number of this type that is nearest; halves are the even one's.
    fn rounded(self, number: f64) -> u64;
}

impl Values for ElementType {
    fn is_integer(&self) -> bool {
        matches!(self, S8 | U8 | S4 | U4 | B1 | S32)
    }

    fn real(self, bits: u64) -> f64 {
        match self {
            F16 => small(bits, 5, 10),
            Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            // The last 13 bits do not count.
            Tf32 => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
            F32 => f64::from(f32::from_bits(bits as u32)),
            F64 => f64::from_bits(bits),
            E5m2 => small(bits, 5, 2),
            // Without infinities: only the largest of all patterns is no number.
            E4m3 if bits & 0x7f == 0x7f => f64::NAN,
            E4m3 => finite(bits, 4, 3),
            _ => self.integer(bits) as f64,
        }
    }

    fn integer(self, bits: u64) -> i64 {
        match self {
            S32 => i64::from(bits as i32),
            S8 => i64::from(bits as i8),
            S4 => (bits as i64) << 60 >> 60,
            _ => bits as i64,
        }
    }

    fn rounded(self, number: f64) -> u64 {
        match self {
            F16 => half(number),
            F32 => u64::from((number as f32).to_bits()),
            _ => number.to_bits(),
        }
    }
}

/// 2 to a power of small size.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A number of an IEEE format with these bits of exponent and fraction.
fn small(bits: u64, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let all = (1u64 << exponent_bits) - 1;
    if bits >> fraction_bits & all != all {
        return finite(bits, exponent_bits, fraction_bits);
    }
    match bits & ((1 << fraction_bits) - 1) {
        0 if bits >> (exponent_bits + fraction_bits) & 1 == 1 => f64::NEG_INFINITY,
        0 => f64::INFINITY,
        _ => f64::NAN,
    }
}

/// The same, where no pattern is special.
fn finite(bits: u64, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let magnitude = bits & ((1 << (exponent_bits + fraction_bits)) - 1);
    let bias = (1 << (exponent_bits - 1)) - 1;
    // As a double with the same fields: its exponent is wrong by the difference of the biases, which the
    // product mends for subnormal numbers too.
    let number = f64::from_bits(magnitude << (52 - fraction_bits)) * power(1023) * power(-bias);
    if bits >> (exponent_bits + fraction_bits) & 1 == 1 {
        -number
    } else {
        number
    }
}

/// The bits of the nearest half.
fn half(number: f64) -> u64 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    let size = number.abs();
    if size.is_nan() {
        return 0x7fff;
    }
    // From here on numbers round to infinity.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The distance of neighbours; below 2^-14 it stays the same.
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(-14);
    let steps = (size * power(10 - exponent)).round_ties_even() as u64;
    // A fraction that has become 2 carries into the exponent.
    sign | ((((exponent + 14) as u64) << 10) + steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_ieees() {
        for (bits, number) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f64.powi(-24)),
            (0x03ff, 1023.0 * 2f64.powi(-24)),
            (0x0400, 2f64.powi(-14)),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(F16.real(bits), number, "{bits:x}");
            assert_eq!(F16.rounded(number), bits, "{number}");
        }
        assert!(F16.real(0x7c01).is_nan());
        // Ties go to the even one, and the last bit of a double counts.
        assert_eq!(F16.rounded(2049.0), 0x6800);
        assert_eq!(F16.rounded(2049.0 + 2f64.powi(-41)), 0x6801);
        assert_eq!(F16.rounded(2051.0), 0x6802);
        assert_eq!(F16.rounded(65519.9), 0x7bff);
        assert_eq!(F16.rounded(2f64.powi(-25)), 0);
        assert_eq!(F16.rounded(2f64.powi(-25) * 1.5), 1);
        assert_eq!(F16.rounded(-0.0), 0x8000);
    }

    /// Every half but not-a-numbers comes back.
    #[test]
    fn every_half_is_its_own_nearest() {
        for bits in (0..=0xffff).filter(|bits| bits & 0x7fff <= 0x7c00) {
            assert_eq!(F16.rounded(F16.real(bits)), bits, "{bits:x}");
        }
    }

    #[test]
    fn short_formats() {
        assert_eq!(Bf16.real(0x3fc0), 1.5);
        assert_eq!(Tf32.real(u64::from(1.0f32.to_bits() | 0x1fff)), 1.0);
        assert_eq!(E4m3.real(0x7e), 448.0);
        assert_eq!(E4m3.real(0x01), 2f64.powi(-9));
        assert!(E4m3.real(0xff).is_nan());
        assert_eq!(E5m2.real(0x7b), 57344.0);
        assert_eq!(E5m2.real(0xfc), f64::NEG_INFINITY);
        assert_eq!(
            (S4.integer(0xf), U4.integer(0xf), S8.integer(0x80)),
            (-1, 15, -128)
        );
    }
}
