//! The types of the elements of matrices.

/// A type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
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
