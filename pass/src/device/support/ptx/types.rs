//! The types of PTX, and their types in LLVM IR.

/// How the bits of a value are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarKind {
    /// As they are: `.b32`.
    Bits,
    /// `.u32`
    Unsigned,
    /// `.s32`
    Signed,
    /// `.f16`, `.f32`, `.f64`
    Float,
    /// `.bf16`
    Brain,
    /// `.pred`
    Predicate,
}

/// A type: `lanes` elements of `bits` bits in one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    /// How an element is read.
    pub kind: ScalarKind,
    /// Bits of an element.
    pub bits: u32,
    /// Elements: 2 of `.f16x2`.
    pub lanes: u32,
}

/// `.b32` and its like, by width.
pub const fn bits(bits: u32) -> Type {
    Type {
        kind: ScalarKind::Bits,
        bits,
        lanes: 1,
    }
}

/// `.pred`
pub const PREDICATE: Type = Type {
    kind: ScalarKind::Predicate,
    bits: 1,
    lanes: 1,
};

impl Type {
    /// The type that a suffix names, without its dot.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "pred" {
            return Some(PREDICATE);
        }
        let (element, lanes) = match text.split_once('x') {
            Some((element, lanes)) => (
                element,
                lanes.parse().ok().filter(|&lanes| lanes == 2 || lanes == 4)?,
            ),
            None => (text, 1),
        };
        let split = element.find(|c: char| c.is_ascii_digit())?;
        let (letters, digits) = element.split_at(split);
        let kind = match letters {
            "b" => ScalarKind::Bits,
            "u" => ScalarKind::Unsigned,
            "s" => ScalarKind::Signed,
            "f" => ScalarKind::Float,
            "bf" => ScalarKind::Brain,
            _ => return None,
        };
        let bits = digits.parse().ok()?;
        let known = match kind {
            ScalarKind::Float => matches!(bits, 16 | 32 | 64),
            ScalarKind::Brain => bits == 16,
            _ => matches!(bits, 8 | 16 | 32 | 64 | 128),
        };
        known.then_some(Self { kind, bits, lanes })
    }

    /// One element's type.
    pub fn element(self) -> Self {
        Self { lanes: 1, ..self }
    }

    /// Bits of a register of the type.
    pub fn width(self) -> u32 {
        self.bits * self.lanes
    }

    /// The integer type of a register of the type.
    pub fn register(self) -> String {
        format!("i{}", self.width())
    }

    /// Whether elements are numbers with a fraction.
    pub fn is_float(self) -> bool {
        matches!(self.kind, ScalarKind::Float | ScalarKind::Brain)
    }

    /// Whether an element is half a `float`, of either format.
    pub fn is_small(self) -> bool {
        self.is_float() && self.bits == 16
    }

    /// The type that LLVM computes in. The 16-bit formats are computed in `float`, and packed types
    /// element by element, so that both stay integers until then.
    pub fn llvm(self) -> String {
        match (self.kind, self.bits, self.lanes) {
            (ScalarKind::Float, 32, 1) => "float".into(),
            (ScalarKind::Float, 64, 1) => "double".into(),
            _ => self.register(),
        }
    }

    /// The suffix of LLVM's intrinsics: `i32` or `f32`.
    pub fn suffix(self) -> String {
        match (self.kind, self.bits) {
            (ScalarKind::Float, 32 | 64) => format!("f{}", self.bits),
            _ => self.register(),
        }
    }
}
