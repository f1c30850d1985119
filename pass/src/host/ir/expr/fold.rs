//! Folding: makers of expressions that simplify them where their parts allow it.
use std::rc::Rc;

use inkwell::llvm_sys::LLVMIntPredicate;

use super::tree::{Expr, Op};
use Expr::{Binary, Constant, SExt, Select, Trunc, ZExt};

/// The bits of a number of this width.
pub fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

fn signed(width: u32, value: u64) -> i64 {
    ((value << (64 - width)) as i64) >> (64 - width)
}

/// More bits, zeroes.
pub fn zext(width: u32, inner: Expr) -> Expr {
    match inner {
        _ if inner.width() == width => inner,
        Constant(_, value) => Constant(width, value),
        ZExt(_, inner) => ZExt(width, inner),
        Trunc(to, ref whole) if whole.width() == width && whole.bits() <= to => (**whole).clone(),
        inner => ZExt(width, Rc::new(inner)),
    }
}

/// One of two, the third where the comparison of the first two holds, else the last.
pub fn select(predicate: LLVMIntPredicate, parts: [Expr; 4]) -> Expr {
    let [left, right, yes, no] = parts;
    if let (&Constant(width, x), &Constant(_, y)) = (&left, &right) {
        return if holds(predicate, width, x, y) { yes } else { no };
    }
    // What is not above 0 is 0.
    if predicate == LLVMIntPredicate::LLVMIntULT
        && matches!(left, Constant(_, 0))
        && yes == right
        && no == left
    {
        return yes;
    }
    Select(predicate, Rc::new([left, right, yes, no]))
}

/// The comparison that holds where this one does not.
pub fn opposite(predicate: LLVMIntPredicate) -> LLVMIntPredicate {
    match predicate {
        LLVMIntPredicate::LLVMIntEQ => LLVMIntPredicate::LLVMIntNE,
        LLVMIntPredicate::LLVMIntNE => LLVMIntPredicate::LLVMIntEQ,
        LLVMIntPredicate::LLVMIntUGT => LLVMIntPredicate::LLVMIntULE,
        LLVMIntPredicate::LLVMIntUGE => LLVMIntPredicate::LLVMIntULT,
        LLVMIntPredicate::LLVMIntULT => LLVMIntPredicate::LLVMIntUGE,
        LLVMIntPredicate::LLVMIntULE => LLVMIntPredicate::LLVMIntUGT,
        LLVMIntPredicate::LLVMIntSGT => LLVMIntPredicate::LLVMIntSLE,
        LLVMIntPredicate::LLVMIntSGE => LLVMIntPredicate::LLVMIntSLT,
        LLVMIntPredicate::LLVMIntSLT => LLVMIntPredicate::LLVMIntSGE,
        LLVMIntPredicate::LLVMIntSLE => LLVMIntPredicate::LLVMIntSGT,
    }
}

/// Whether a comparison of two numbers of so many bits holds.
pub fn holds(predicate: LLVMIntPredicate, width: u32, x: u64, y: u64) -> bool {
    let (sx, sy) = (signed(width, x), signed(width, y));
    match predicate {
        LLVMIntPredicate::LLVMIntEQ => x == y,
        LLVMIntPredicate::LLVMIntNE => x != y,
        LLVMIntPredicate::LLVMIntUGT => x > y,
        LLVMIntPredicate::LLVMIntUGE => x >= y,
        LLVMIntPredicate::LLVMIntULT => x < y,
        LLVMIntPredicate::LLVMIntULE => x <= y,
        LLVMIntPredicate::LLVMIntSGT => sx > sy,
        LLVMIntPredicate::LLVMIntSGE => sx >= sy,
        LLVMIntPredicate::LLVMIntSLT => sx < sy,
        LLVMIntPredicate::LLVMIntSLE => sx <= sy,
    }
}

/// More bits, the sign.
pub fn sext(width: u32, inner: Expr) -> Expr {
    match inner {
        _ if inner.width() == width => inner,
        Constant(from, value) => Constant(width, signed(from, value) as u64 & mask(width)),
        inner => SExt(width, Rc::new(inner)),
    }
}

/// The low `width` bits of `inner`.
pub fn trunc(width: u32, inner: Expr) -> Expr {
    match &inner {
        _ if inner.width() == width => inner,
        Constant(_, value) => Constant(width, value & mask(width)),
        ZExt(_, part) | SExt(_, part) if part.width() == width => (**part).clone(),
        ZExt(_, part) if part.width() < width => zext(width, (**part).clone()),
        ZExt(_, part) | SExt(_, part) | Trunc(_, part) if part.width() > width => {
            trunc(width, (**part).clone())
        }
        Binary(op @ (Op::Or | Op::And | Op::Xor), a, b) => {
            binary(*op, trunc(width, (**a).clone()), trunc(width, (**b).clone()))
        }
        Binary(Op::Shl, _, by) if matches!(**by, Constant(_, by) if by >= u64::from(width)) => {
            Constant(width, 0)
        }
        _ => Trunc(width, Rc::new(inner)),
    }
}

/// Arithmetic, folded where it can be.
pub fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    let width = a.width();
    if let (&Constant(_, x), &Constant(_, y)) = (&a, &b)
        && let Some(value) = fold(op, width, x, y)
    {
        return Constant(width, value & mask(width));
    }
    match (op, &a, &b) {
        (Op::Add | Op::Or | Op::Xor | Op::UMax | Op::AddSat, &Constant(_, 0), _) => b,
        (Op::Mul, &Constant(_, 1), _) => b,
        (Op::Mul | Op::And, &Constant(_, 0), _) => a,
        (Op::Add | Op::Sub | Op::Or | Op::Xor | Op::UMax | Op::AddSat, _, &Constant(_, 0)) => a,
        (Op::Shl | Op::LShr | Op::AShr, _, &Constant(_, 0))
        | (Op::Mul | Op::UDiv | Op::SDiv, _, &Constant(_, 1)) => a,
        (Op::Mul | Op::And, _, &Constant(_, 0)) => b,
        (Op::UMax | Op::UMin | Op::SMax | Op::SMin, x, y) if x == y => a,
        (Op::And, x, &Constant(_, low)) if low.trailing_ones() >= x.bits() => a,
        (Op::And, Binary(Op::Shl, _, by), &Constant(_, low)) if clears(by, low) => Constant(width, 0),
        (Op::And, x, &Constant(_, high)) if high != 0 && high.trailing_zeros() >= x.bits() => {
            Constant(width, 0)
        }
        (Op::And | Op::LShr, Binary(Op::Or, x, y), &Constant(..)) => {
            let (x, y) = (
                binary(op, (**x).clone(), b.clone()),
                binary(op, (**y).clone(), b.clone()),
            );
            binary(Op::Or, x, y)
        }
        (Op::LShr, x, &Constant(_, by)) if u64::from(x.bits()) <= by => Constant(width, 0),
        (Op::LShr, Binary(Op::Shl, x, left), right) if **left == *right && fits_shift(x, right) => {
            (**x).clone()
        }
        _ => Binary(op, Rc::new(a), Rc::new(b)),
    }
}

/// Whether a left shift by `by` leaves nothing under the mask `low`.
fn clears(by: &Expr, low: u64) -> bool {
    matches!(*by, Constant(_, by) if by < 64 && low >> by == 0)
}

/// Whether shifting left by this constant loses no bit.
fn fits_shift(x: &Expr, by: &Expr) -> bool {
    matches!(*by, Constant(_, by) if u64::from(x.bits()) + by <= u64::from(x.width()))
}

fn fold(op: Op, width: u32, x: u64, y: u64) -> Option<u64> {
    let (sx, sy) = (signed(width, x), signed(width, y));
    let shift = u32::try_from(y).ok().filter(|&by| by < width);
    Some(match op {
        Op::Add => x.wrapping_add(y),
        Op::Sub => x.wrapping_sub(y),
        Op::Mul => x.wrapping_mul(y),
        Op::UDiv => x.checked_div(y)?,
        Op::URem => x.checked_rem(y)?,
        Op::SDiv => sx.checked_div(sy)? as u64,
        Op::SRem => sx.checked_rem(sy)? as u64,
        Op::Shl => x << shift?,
        Op::LShr => x >> shift?,
        Op::AShr => (sx >> shift?) as u64,
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
        Op::UMax => x.max(y),
        Op::UMin => x.min(y),
        Op::SMax => sx.max(sy) as u64,
        Op::SMin => sx.min(sy) as u64,
        Op::AddSat => x.saturating_add(y).min(mask(width)),
    })
}
