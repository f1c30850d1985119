//! The shapes of matrix instructions: what NVIDIA's PTX ISA has of `wmma` and of `mma.sync`, as a table.
use mgb_abi::matrix::ElementType::{self, *};

/// The two kinds of instructions. They have the same layouts here, and CUDA hides those of `wmma`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `wmma.mma`, with loads and stores of its own.
    Wmma,
    /// `mma.sync`.
    Mma,
}

/// Rows of A, columns of B, and what is between.
pub type MatrixShape = (u32, u32, u32);

/// Shapes that the same types allow.
struct ShapeRow {
    family: Family,
    /// Types of the elements of A and B.
    factors: &'static [ElementType],
    /// Whether A and B may be of different types of these.
    mixed: bool,
    /// Types of the elements of C and D, each by itself.
    sums: &'static [ElementType],
    shapes: &'static [MatrixShape],
}

const SQUARE_AND_LONG: &[MatrixShape] = &[(16, 16, 16), (32, 8, 16), (8, 32, 16)];

/// Left out are `m8n8k4` of `f16`, whose layout is one of its own and which no GPU since Volta is made for,
/// the sparse forms, and the formats of less than 8 bits with a fraction.
#[rustfmt::skip]
const TABLE: &[ShapeRow] = &[
    row(Family::Wmma, &[F16], &[F16, F32], SQUARE_AND_LONG),
    row(Family::Wmma, &[Bf16], &[F32], SQUARE_AND_LONG),
    row(Family::Wmma, &[Tf32], &[F32], &[(16, 16, 8)]),
    row(Family::Wmma, &[F64], &[F64], &[(8, 8, 4)]),
    row(Family::Wmma, &[S8, U8], &[S32], SQUARE_AND_LONG),
    row(Family::Wmma, &[S4, U4], &[S32], &[(8, 8, 32)]),
    row(Family::Wmma, &[B1], &[S32], &[(8, 8, 128)]),
    row(Family::Mma, &[F16], &[F16, F32], &[(16, 8, 8), (16, 8, 16)]),
    row(Family::Mma, &[Bf16], &[F32], &[(16, 8, 8), (16, 8, 16)]),
    row(Family::Mma, &[Tf32], &[F32], &[(16, 8, 4), (16, 8, 8)]),
    row(Family::Mma, &[F64], &[F64], &[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)]),
    mixed(&[S8, U8], &[S32], &[(8, 8, 16), (16, 8, 16), (16, 8, 32)]),
    mixed(&[S4, U4], &[S32], &[(8, 8, 32), (16, 8, 32), (16, 8, 64)]),
    row(Family::Mma, &[B1], &[S32], &[(8, 8, 128), (16, 8, 128), (16, 8, 256)]),
    mixed(&[E4m3, E5m2], &[F16, F32], &[(16, 8, 16), (16, 8, 32)]),
];

const fn row(
    family: Family,
    factors: &'static [ElementType],
    sums: &'static [ElementType],
    shapes: &'static [MatrixShape],
) -> ShapeRow {
    ShapeRow {
        family,
        factors,
        mixed: false,
        sums,
        shapes,
    }
}

const fn mixed(
    factors: &'static [ElementType],
    sums: &'static [ElementType],
    shapes: &'static [MatrixShape],
) -> ShapeRow {
    ShapeRow {
        mixed: true,
        ..row(Family::Mma, factors, sums, shapes)
    }
}

/// Whether A and B of these types can be multiplied in a shape, with C and D of these types.
pub fn multiplies(
    family: Family,
    shape: MatrixShape,
    [a, b]: [ElementType; 2],
    sums: [ElementType; 2],
) -> bool {
    TABLE.iter().any(|row| {
        row.family == family
            && row.shapes.contains(&shape)
            && [a, b].iter().all(|factor| row.factors.contains(factor))
            && (row.mixed || a == b)
            && sums.iter().all(|sum| row.sums.contains(sum))
    })
}

/// Whether `wmma` has A and B of a type in a shape.
pub fn has_factor(shape: MatrixShape, element: ElementType) -> bool {
    rows_of_wmma(shape).any(|row| row.factors.contains(&element))
}

/// Whether `wmma` has C and D of a type in a shape.
pub fn has_sum(shape: MatrixShape, element: ElementType) -> bool {
    rows_of_wmma(shape).any(|row| row.sums.contains(&element))
}

fn rows_of_wmma(shape: MatrixShape) -> impl Iterator<Item = &'static ShapeRow> {
    TABLE
        .iter()
        .filter(move |row| row.family == Family::Wmma && row.shapes.contains(&shape))
}

/// What the accumulators of a type's products are, where an instruction does not name them.
pub fn sum_of(factor: ElementType) -> Option<ElementType> {
    match factor {
        Bf16 | Tf32 => Some(F32),
        F64 => Some(F64),
        S8 | U8 | S4 | U4 | B1 => Some(S32),
        _ => None,
    }
}

/// The shape that a part of a mnemonic names: `m16n8k16`.
pub fn parse(text: &str) -> Option<MatrixShape> {
    let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}
