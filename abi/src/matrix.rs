//! The types of the elements of matrices, as PTX names them and as the software GPU's image numbers them
//! (`SOFTGPU_MATRIX_*` in `softgpu_image.h`): the pass writes the numbers, the software GPU reads them.

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A half of IEEE 754.
    F16,
    /// The first half of a `float`.
    Bf16,
    /// A `float` of which the first 19 bits count.
    Tf32,
    /// A `float`, all of it.
    F32,
    /// A `double`.
    F64,
    /// A signed byte.
    S8,
    /// An unsigned byte.
    U8,
    /// A signed integer of four bits.
    S4,
    /// An unsigned integer of four bits.
    U4,
    /// A single bit.
    B1,
    /// A signed integer of 32 bits.
    S32,
    /// A byte with four bits of exponent, without infinities.
    E4m3,
    /// A byte with five bits of exponent, as a half has.
    E5m2,
}

/// All types with their names in PTX, in the order of their numbers.
const NAMES: [(&str, Element); 13] = [
    ("f16", Element::F16),
    ("bf16", Element::Bf16),
    ("tf32", Element::Tf32),
    ("f32", Element::F32),
    ("f64", Element::F64),
    ("s8", Element::S8),
    ("u8", Element::U8),
    ("s4", Element::S4),
    ("u4", Element::U4),
    ("b1", Element::B1),
    ("s32", Element::S32),
    ("e4m3", Element::E4m3),
    ("e5m2", Element::E5m2),
];

impl Element {
    /// The type that PTX calls so.
    pub fn parse(text: &str) -> Option<Element> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named.map(|&(_, element)| element)
    }

    /// The type of a number of the image.
    pub fn of(number: u64) -> Option<Element> {
        let at = usize::try_from(number).ok()?;
        NAMES.get(at).map(|&(_, element)| element)
    }

    /// Its number in the image.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Element::B1 => 1,
            Element::S4 | Element::U4 => 4,
            Element::S8 | Element::U8 | Element::E4m3 | Element::E5m2 => 8,
            Element::F16 | Element::Bf16 => 16,
            Element::Tf32 | Element::F32 | Element::S32 => 32,
            Element::F64 => 64,
        }
    }

    /// Bits of a register that holds such elements.
    pub fn register_bits(self) -> u32 {
        self.bits().max(32)
    }

    /// How many elements a register holds.
    pub fn per_register(self) -> u32 {
        self.register_bits() / self.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_table() {
        for (at, &(name, element)) in NAMES.iter().enumerate() {
            assert_eq!(element.number(), at as u64);
            assert_eq!(Element::of(at as u64), Some(element));
            assert_eq!(Element::parse(name), Some(element));
        }
        assert_eq!(
            (Element::of(13), Element::of(u64::MAX), Element::parse("f15")),
            (None, None, None)
        );
    }
}
