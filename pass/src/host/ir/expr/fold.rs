//! Folding: makers of expressions that simplify them where their parts allow it.
use std::rc::Rc;

use inkwell::llvm_sys::LLVMIntPredicate;

use super::tree::{BinaryOp, Expr};
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
        Binary(op @ (BinaryOp::Or | BinaryOp::And | BinaryOp::Xor), a, b) => {
            binary(*op, trunc(width, (**a).clone()), trunc(width, (**b).clone()))
        }
        Binary(BinaryOp::Shl, _, by) if matches!(**by, Constant(_, by) if by >= u64::from(width)) => {
            Constant(width, 0)
        }
        _ => Trunc(width, Rc::new(inner)),
    }
}

/// Arithmetic, folded where it can be.
pub fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let width = a.width();
    if let (&Constant(_, x), &Constant(_, y)) = (&a, &b)
        && let Some(value) = fold(op, width, x, y)
    {
        return Constant(width, value & mask(width));
    }
    match (op, &a, &b) {
        (
            BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor | BinaryOp::UMax | BinaryOp::AddSat,
            &Constant(_, 0),
            _,
        ) => b,
        (BinaryOp::Mul, &Constant(_, 1), _) => b,
        (BinaryOp::Mul | BinaryOp::And, &Constant(_, 0), _) => a,
        (
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor | BinaryOp::UMax | BinaryOp::AddSat,
            _,
            &Constant(_, 0),
        ) => a,
        (BinaryOp::Shl | BinaryOp::LShr | BinaryOp::AShr, _, &Constant(_, 0))
        | (BinaryOp::Mul | BinaryOp::UDiv | BinaryOp::SDiv, _, &Constant(_, 1)) => a,
        (BinaryOp::Mul | BinaryOp::And, _, &Constant(_, 0)) => b,
        (BinaryOp::UMax | BinaryOp::UMin | BinaryOp::SMax | BinaryOp::SMin, x, y) if x == y => a,
        (BinaryOp::And, x, &Constant(_, low)) if low.trailing_ones() >= x.bits() => a,
        (BinaryOp::And, Binary(BinaryOp::Shl, _, by), &Constant(_, low)) if clears(by, low) => {
            Constant(width, 0)
        }
        (BinaryOp::And, x, &Constant(_, high)) if high != 0 && high.trailing_zeros() >= x.bits() => {
            Constant(width, 0)
        }
        (BinaryOp::And | BinaryOp::LShr, Binary(BinaryOp::Or, x, y), &Constant(..)) => {
            let (x, y) = (
                binary(op, (**x).clone(), b.clone()),
                binary(op, (**y).clone(), b.clone()),
            );
            binary(BinaryOp::Or, x, y)
        }
        (BinaryOp::LShr, x, &Constant(_, by)) if u64::from(x.bits()) <= by => Constant(width, 0),
        (BinaryOp::LShr, Binary(BinaryOp::Shl, x, left), right)
            if **left == *right && fits_shift(x, right) =>
        {
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

fn fold(op: BinaryOp, width: u32, x: u64, y: u64) -> Option<u64> {
    let (sx, sy) = (signed(width, x), signed(width, y));
    let shift = u32::try_from(y).ok().filter(|&by| by < width);
    Some(match op {
        BinaryOp::Add => x.wrapping_add(y),
        BinaryOp::Sub => x.wrapping_sub(y),
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::UDiv => x.checked_div(y)?,
        BinaryOp::URem => x.checked_rem(y)?,
        BinaryOp::SDiv => sx.checked_div(sy)? as u64,
        BinaryOp::SRem => sx.checked_rem(sy)? as u64,
        BinaryOp::Shl => x << shift?,
        BinaryOp::LShr => x >> shift?,
        BinaryOp::AShr => (sx >> shift?) as u64,
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::UMax => x.max(y),
        BinaryOp::UMin => x.min(y),
        BinaryOp::SMax => sx.max(sy) as u64,
        BinaryOp::SMin => sx.min(sy) as u64,
        BinaryOp::AddSat => x.saturating_add(y).min(mask(width)),
    })
}
