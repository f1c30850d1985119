//! The types of the elements of matrices, as PTX names them and as the software GPU's image numbers them
//! (`SOFTGPU_MATRIX_*` in `softgpu_image.h`): the pass writes the numbers, the software GPU reads them.

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// A half of IEEE 754.
    F16,
    /// The first half of a `float`.
    Bf16,
    /// A `float` of which the first 19 bits count.
    Tf32,
    /// A `float`, all of it.
    F32,
    /// A `double`, of 64 bits.
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
const NAMES: [(&str, ElementType); 13] = [
    ("f16", ElementType::F16),
    ("bf16", ElementType::Bf16),
    ("tf32", ElementType::Tf32),
    ("f32", ElementType::F32),
    ("f64", ElementType::F64),
    ("s8", ElementType::S8),
    ("u8", ElementType::U8),
    ("s4", ElementType::S4),
    ("u4", ElementType::U4),
    ("b1", ElementType::B1),
    ("s32", ElementType::S32),
    ("e4m3", ElementType::E4m3),
    ("e5m2", ElementType::E5m2),
];

impl ElementType {
    /// The type that PTX calls so.
    pub fn parse(text: &str) -> Option<ElementType> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named.map(|&(_, element)| element)
    }

    /// The type of a number of the image.
    pub fn of(number: u64) -> Option<ElementType> {
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
            ElementType::B1 => 1,
            ElementType::S4 | ElementType::U4 => 4,
            ElementType::S8 | ElementType::U8 | ElementType::E4m3 | ElementType::E5m2 => 8,
            ElementType::F16 | ElementType::Bf16 => 16,
            ElementType::Tf32 | ElementType::F32 | ElementType::S32 => 32,
            ElementType::F64 => 64,
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
            assert_eq!(ElementType::of(at as u64), Some(element));
            assert_eq!(ElementType::parse(name), Some(element));
        }
        assert_eq!(
            (
                ElementType::of(13),
                ElementType::of(u64::MAX),
                ElementType::parse("f15")
            ),
            (None, None, None)
        );
    }
}
