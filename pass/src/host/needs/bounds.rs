//! Bounds: the bytes that a size may come to at run time, and the granules that they take.
//!
//! A need is computed from what the program's variables hold where the task begins, which need not be what an
//! allocation gets: a variable that is set in one mode only, or -1 for "none". No GPU has as much as such sizes
//! say, so they count for nothing, and the task grows should it come to them.
use inkwell::llvm_sys::LLVMIntPredicate as Predicate;

use crate::host::ir::expr::{self, BinaryOp, Expr};

/// Physical memory is mapped in granules of this size.
const GRANULE: u64 = 2 << 20;
/// Objects below this share granules (`mgb_core::arena`): of two granules of a task at most one is less than
/// half full.
const SMALL: u64 = 1 << 20;
/// Objects in shared granules start at multiples of this.
const ALIGN: u64 = 512;
/// Sizes have fewer bits: 128 TiB are all addresses that a process has.
pub const SIZE_BITS: u32 = 47;

/// The size, or nothing where it cannot be one.
pub fn possible(size: Expr) -> Expr {
    if size.bits() <= SIZE_BITS {
        return size;
    }
    let limit = Expr::number(1 << SIZE_BITS);
    expr::select(
        Predicate::LLVMIntULT,
        [size.clone(), limit, size, Expr::number(0)],
    )
}

/// The bytes behind `possible`, if an expression is one: reports name what the program computes.
pub fn behind_possible(expression: &Expr) -> Option<&Expr> {
    let Expr::Select(Predicate::LLVMIntULT, parts) = expression else {
        return None;
    };
    let [size, limit, yes, no] = parts.as_ref();
    let is_limit = *limit == Expr::number(1 << SIZE_BITS);
    (is_limit && size == yes && *no == Expr::number(0)).then_some(size)
}

/// Rounds up to a multiple of a power of two.
pub fn round_up(size: Expr, to: u64) -> Expr {
    let raised = expr::binary(BinaryOp::AddSat, size, Expr::number(to - 1));
    expr::binary(BinaryOp::And, raised, Expr::number(!(to - 1)))
}

/// So many bytes of each of these sizes at once, in whole granules at most. `sizes`: the bytes of one object,
/// and how many there are.
pub fn mapped(sizes: impl IntoIterator<Item = (Expr, Option<Expr>)>) -> Expr {
    let (mut large, mut small) = (Expr::number(0), Expr::number(0));
    for (size, count) in sizes {
        let by_size = |below: Expr, above: Expr| {
            let sides = [size.clone(), Expr::number(SMALL), below, above];
            times(expr::select(Predicate::LLVMIntULT, sides), &count)
        };
        let nothing = || Expr::number(0);
        let own = by_size(nothing(), round_up(size.clone(), GRANULE));
        let shared = by_size(round_up(size.clone(), ALIGN), nothing());
        large = expr::binary(BinaryOp::AddSat, large, own);
        small = expr::binary(BinaryOp::AddSat, small, shared);
    }
    // All granules but one are more than half full.
    let halves = expr::binary(
        BinaryOp::LShr,
        round_up(small, SMALL),
        Expr::number(SMALL.ilog2().into()),
    );
    let shared = expr::binary(BinaryOp::Shl, halves, Expr::number(GRANULE.ilog2().into()));
    expr::binary(BinaryOp::AddSat, large, shared)
}

/// So many of a size.
pub fn times(size: Expr, count: &Option<Expr>) -> Expr {
    match count {
        Some(count) => expr::binary(BinaryOp::Mul, count.clone(), size),
        None => size,
    }
}
