//! The types of the elements of matrices.

/// A type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    F16,
    Bf16,
    /// A `float` of which the first 19 bits count.
    Tf32,
    F32,
    F64,
    S8,
    U8,
    S4,
    U4,
    /// A single bit.
    B1,
    S32,
    E4m3,
    E5m2,
}

/// In the order of their numbers, `SOFTGPU_MATRIX_*`.
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
    pub fn parse(text: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|&(_, element)| element)
    }

    /// Its number for the software GPU.
    pub fn number(self) -> u64 {
        let at = NAMES.iter().position(|&(_, element)| element == self);
        at.expect("every type has a name") as u64
    }

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Self::B1 => 1,
            Self::S4 | Self::U4 => 4,
            Self::S8 | Self::U8 | Self::E4m3 | Self::E5m2 => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
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
