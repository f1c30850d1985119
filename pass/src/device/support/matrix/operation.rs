//! What a matrix instruction does, from the parts of its name.
use super::fragment::{Fragment, Matrix};
use super::shapes::{self, Family, MatrixShape};
use mgb_abi::matrix::ElementType;

/// A matrix instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `wmma.load`
    Load(MatrixAccess),
    /// `wmma.store`
    Store(MatrixAccess),
    /// `wmma.mma` and `mma.sync`
    Multiply(MatrixProduct),
}

/// A load or a store of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixAccess {
    pub fragment: Fragment,
    /// Registers that the instruction names: those of the fragment, once or repeated.
    pub registers: u32,
    /// Whether a row of the fragment, and not a column, is contiguous in memory.
    pub along_rows: bool,
    /// Elements from one to the next, where the instruction does not say.
    pub stride: Option<u32>,
}

/// D = A * B + C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixProduct {
    shape: MatrixShape,
    pub a: Fragment,
    pub b: Fragment,
    pub c: Fragment,
    pub d: Fragment,
    /// Registers of A, and of B, that the instruction names.
    pub registers: [u32; 2],
    /// Whether sums stay at the ends of their type's range.
    saturates: bool,
    /// Whether bits are multiplied by `and`; else by exclusive or.
    and: bool,
}

impl MatrixProduct {
    /// What the software GPU is told: see `softgpu_calls.matrix`.
    pub fn word(&self) -> u64 {
        let (m, n, k) = self.shape;
        let mut word = u64::from(m) | u64::from(n) << 8 | u64::from(k) << 16;
        for (at, fragment) in [self.a, self.b, self.c, self.d].iter().enumerate() {
            word |= fragment.element.number() << (32 + 4 * at);
        }
        word | u64::from(self.saturates) << 48 | u64::from(self.and) << 49
    }
}

/// The parts of a name, sorted out.
#[derive(Default)]
struct Parts<'a> {
    shape: Option<MatrixShape>,
    types: Vec<ElementType>,
    /// Whether each `row` or `col` is `row`.
    by_rows: Vec<bool>,
    /// `load`, `store` or `mma`.
    what: Option<&'a str>,
    /// `a`, `b`, `c` or `d`.
    matrix: Option<&'a str>,
    modifiers: Vec<&'a str>,
}

impl Operation {
    /// Takes a name apart: one of LLVM's intrinsics without its `llvm.nvvm.`, or PTX's mnemonic with its
    /// modifiers. None if it is no matrix instruction, or one that is not there.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = Parts::default();
        let (family, rest) = name.split_once('.')?;
        let family = match family {
            "wmma" => Family::Wmma,
            "mma" => Family::Mma,
            _ => return None,
        };
        for part in rest.split('.') {
            if let Some(shape) = shapes::parse(part) {
                parts.shape = Some(shape);
            } else if let Some(element) = ElementType::parse(part) {
                parts.types.push(element);
            } else {
                match part {
                    "row" | "col" => parts.by_rows.push(part == "row"),
                    "load" | "store" | "mma" => parts.what = Some(part),
                    "a" | "b" | "c" | "d" => parts.matrix = Some(part),
                    "stride" | "satfinite" | "xor" | "and" => parts.modifiers.push(part),
                    // Where memory is makes no difference here, `rn` and `popc` are all that there is, and
                    // every instruction waits for all lanes.
                    "sync" | "aligned" | "rn" | "popc" => {}
                    "p0" | "p1" | "p3" | "global" | "shared" | "cta" => {}
                    _ => return None,
                }
            }
        }
        match (family, parts.what) {
            (Family::Wmma, Some("load")) => parts.access("load").map(Self::Load),
            (Family::Wmma, Some("store")) => parts.access("store").map(Self::Store),
            (Family::Wmma, Some("mma")) | (Family::Mma, None) => parts.product(family).map(Self::Multiply),
            _ => None,
        }
    }
}

impl Parts<'_> {
    fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    fn access(&self, what: &str) -> Option<MatrixAccess> {
        let (&[element], &[by_rows]) = (self.types.as_slice(), self.by_rows.as_slice()) else {
            return None;
        };
        let shape @ (m, n, k) = self.shape?;
        let (matrix, columns) = match (what, self.matrix?) {
            ("load", "a") => (Matrix::A, if by_rows { k } else { m }),
            ("load", "b") => (Matrix::B, if by_rows { n } else { k }),
            ("load", "c") | ("store", "d") => (Matrix::Sum, if by_rows { n } else { m }),
            _ => return None,
        };
        let known = match matrix {
            Matrix::Sum => shapes::has_sum(shape, element),
            _ => shapes::has_factor(shape, element),
        };
        // B's fragments are those of its transpose.
        let along_rows = by_rows != (matrix == Matrix::B);
        // Less than a byte has no address.
        if !known || element.bits() < 8 && !along_rows {
            return None;
        }
        let fragment = Fragment::new(matrix, shape, element);
        Some(MatrixAccess {
            fragment,
            registers: registers(Family::Wmma, matrix, &fragment),
            along_rows,
            stride: (!self.has("stride")).then_some(columns),
        })
    }

    fn product(&self, family: Family) -> Option<MatrixProduct> {
        let shape = self.shape?;
        let (factors, [d, c]) = self.four_types()?;
        if !shapes::multiplies(family, shape, factors, [d, c]) {
            return None;
        }
        // The layouts in memory that `wmma` names make no difference to fragments, and `mma` has one.
        let layouts_fit = match family {
            Family::Wmma => self.by_rows.len() == 2,
            Family::Mma => self.by_rows == [true, false],
        };
        let bits = factors[0] == ElementType::B1;
        if !layouts_fit || bits != (self.has("xor") || self.has("and")) {
            return None;
        }
        let (a, b) = (
            Fragment::new(Matrix::A, shape, factors[0]),
            Fragment::new(Matrix::B, shape, factors[1]),
        );
        Some(MatrixProduct {
            shape,
            a,
            b,
            c: Fragment::new(Matrix::Sum, shape, c),
            d: Fragment::new(Matrix::Sum, shape, d),
            registers: [registers(family, Matrix::A, &a), registers(family, Matrix::B, &b)],
            saturates: self.has("satfinite"),
            and: self.has("and"),
        })
    }

    /// The types of A and B, and of D and C. LLVM names only those that are not clear without.
    fn four_types(&self) -> Option<([ElementType; 2], [ElementType; 2])> {
        Some(match *self.types.as_slice() {
            [one] => {
                let sum = shapes::sum_of(one)?;
                ([one, one], [sum, sum])
            }
            [d, c]
                if [d, c]
                    .iter()
                    .all(|sum| matches!(sum, ElementType::F16 | ElementType::F32)) =>
            {
                ([ElementType::F16, ElementType::F16], [d, c])
            }
            [a, b] => {
                let sum = shapes::sum_of(a)?;
                ([a, b], [sum, sum])
            }
            [d, a, b, c] => ([a, b], [d, c]),
            _ => return None,
        })
    }
}

/// Registers that an instruction names for a fragment. `wmma` has eight for A and B of `f16` in every shape:
/// the fragment again and again.
fn registers(family: Family, matrix: Matrix, fragment: &Fragment) -> u32 {
    match (family, matrix, fragment.element) {
        (Family::Wmma, Matrix::A | Matrix::B, ElementType::F16) => 8,
        _ => fragment.registers(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(name: &str) -> Option<MatrixProduct> {
        match Operation::parse(name)? {
            Operation::Multiply(product) => Some(product),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn llvm_and_ptx_name_the_same() {
        let pairs = [
            (
                "wmma.m16n16k16.mma.row.col.f32.f16",
                "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16",
            ),
            (
                "wmma.m16n16k8.mma.row.row.tf32",
                "wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32",
            ),
            (
                "mma.m16n8k32.row.col.satfinite.s8.u8",
                "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32",
            ),
            (
                "mma.and.popc.m16n8k256.row.col.b1",
                "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
            ),
            (
                "mma.m16n8k16.row.col.f16.f16",
                "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
            ),
        ];
        for (llvm, ptx) in pairs {
            assert!(product(llvm).is_some(), "{llvm}");
            assert_eq!(product(llvm), product(ptx), "{llvm}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for name in [
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
            "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
            "mma.sync.aligned.m16n8k16.row.col.s32.f16.f16.s32",
            "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32",
            "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e5m2.f32",
            "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32",
            "wmma.load.a.sync.aligned.row.m16n16k8.f16",
            "wmma.load.d.sync.aligned.row.m16n16k16.f32",
        ] {
            assert_eq!(Operation::parse(name), None, "{name}");
        }
    }

    #[test]
    fn strides_are_rows_where_nothing_is_said() {
        let stride = |name| match Operation::parse(name) {
            Some(Operation::Load(access) | Operation::Store(access)) => access.stride,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(
            stride("wmma.load.a.sync.aligned.row.m32n8k16.shared.f16"),
            Some(16)
        );
        assert_eq!(
            stride("wmma.load.a.sync.aligned.col.m32n8k16.shared.f16"),
            Some(32)
        );
        assert_eq!(stride("wmma.m32n8k16.load.b.row.f16.p0"), Some(8));
        assert_eq!(stride("wmma.m32n8k16.store.d.col.f32.p3"), Some(32));
        assert_eq!(stride("wmma.m32n8k16.store.d.col.stride.f32.p3"), None);
    }
}
