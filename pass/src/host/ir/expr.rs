//! Expressions: values of the program as arithmetic over what is defined at a point.
//!
//! Only what can be computed anywhere without a trap or a side effect is taken apart; the rest is a
//! leaf. No-wrap flags are not carried over, so that computing an expression early never makes
//! poison of it. Undefined bits, which clang leaves in the halves of a `dim3`, count as zero.
use std::rc::Rc;

use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

use crate::host::ir::Value;
use crate::host::ir::helpers;

/// How deep values are taken apart.
const DEPTH: u32 = 48;

/// An operation on two values of the same width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Wrapping, as the program computes.
    Add,
    /// Wrapping.
    Sub,
    /// Wrapping.
    Mul,
    /// Unsigned, by a constant that is not 0.
    UDiv,
    /// Signed, by a constant that is neither 0 nor -1.
    SDiv,
    /// Unsigned, by a constant that is not 0.
    URem,
    /// Signed, by a constant that is neither 0 nor -1.
    SRem,
    /// Left shift.
    Shl,
    /// Right shift, filling with zeroes.
    LShr,
    /// Right shift, filling with the sign.
    AShr,
    /// Bitwise.
    And,
    /// Bitwise.
    Or,
    /// Bitwise.
    Xor,
    /// The unsigned larger.
    UMax,
    /// The unsigned smaller.
    UMin,
    /// The signed larger.
    SMax,
    /// The signed smaller.
    SMin,
    /// Addition that stops at the largest number.
    AddSat,
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A number of so many bits.
    Constant(u32, u64),
    /// A value that is taken as it is.
    Leaf(Value),
    /// Arithmetic.
    Binary(Op, Rc<Expr>, Rc<Expr>),
    /// More bits, zeroes.
    ZExt(u32, Rc<Expr>),
    /// More bits, the sign.
    SExt(u32, Rc<Expr>),
    /// Fewer bits.
    Trunc(u32, Rc<Expr>),
    /// One of two, by a comparison: predicate, its sides, then the two.
    Select(LLVMIntPredicate, Rc<[Expr; 4]>),
    /// An instruction without side effects that can be repeated elsewhere on these operands.
    Repeat(Value, Rc<[Expr]>),
}

use Expr::{Binary, Constant, Leaf, Repeat, SExt, Select, Trunc, ZExt};

impl Expr {
    /// A value of the program.
    pub fn of(value: Value) -> Expr {
        of(value, DEPTH)
    }

    /// A 64-bit number.
    pub fn number(value: u64) -> Expr {
        Constant(64, value)
    }

    /// Its width in bits; 0 if it is not an integer.
    pub fn width(&self) -> u32 {
        match self {
            Constant(width, _) | ZExt(width, _) | SExt(width, _) | Trunc(width, _) => *width,
            Leaf(value) | Repeat(value, _) => value.ty().int_width().unwrap_or(0),
            Binary(_, a, _) => a.width(),
            Select(_, parts) => parts[2].width(),
        }
    }

    /// An upper bound for the number of its low bits that may be set.
    fn bits(&self) -> u32 {
        let width = self.width();
        let bits = match self {
            Constant(_, value) => 64 - value.leading_zeros(),
            ZExt(_, inner) | Trunc(_, inner) => inner.bits(),
            Binary(op, a, b) => match (op, b.as_ref()) {
                (Op::LShr, &Constant(_, by)) => a.bits().saturating_sub(by.min(64) as u32),
                (Op::Shl, &Constant(_, by)) => a.bits().saturating_add(by.min(64) as u32),
                (Op::And | Op::UMin, _) => a.bits().min(b.bits()),
                (Op::Or | Op::Xor | Op::UMax, _) => a.bits().max(b.bits()),
                (Op::Mul, _) => a.bits() + b.bits(),
                (Op::Add | Op::AddSat, _) => a.bits().max(b.bits()) + 1,
                (Op::UDiv | Op::URem, _) => a.bits(),
                _ => width,
            },
            Select(_, parts) => parts[2].bits().max(parts[3].bits()),
            Leaf(_) | SExt(..) | Repeat(..) => width,
        };
        bits.min(width)
    }

    /// The same expression of other leaves, folded where it can be.
    pub fn with_leaves(&self, change: &mut impl FnMut(Value) -> Expr) -> Expr {
        match self {
            Constant(..) => self.clone(),
            Leaf(value) => change(*value),
            Binary(op, a, b) => binary(*op, a.with_leaves(change), b.with_leaves(change)),
            ZExt(width, inner) => zext(*width, inner.with_leaves(change)),
            SExt(width, inner) => sext(*width, inner.with_leaves(change)),
            Trunc(width, inner) => trunc(*width, inner.with_leaves(change)),
            Select(predicate, parts) => {
                let [left, right, yes, no] = [0, 1, 2, 3].map(|at| parts[at].with_leaves(change));
                select(*predicate, [left, right, yes, no])
            }
            Repeat(value, parts) => Repeat(
                *value,
                parts.iter().map(|part| part.with_leaves(change)).collect(),
            ),
        }
    }

    /// Calls `visit` for every value it is computed from.
    pub fn leaves(&self, visit: &mut impl FnMut(Value)) {
        match self {
            Constant(..) => {}
            Leaf(value) => visit(*value),
            Binary(_, a, b) => {
                a.leaves(visit);
                b.leaves(visit);
            }
            ZExt(_, inner) | SExt(_, inner) | Trunc(_, inner) => inner.leaves(visit),
            Select(_, parts) => parts.iter().for_each(|part| part.leaves(visit)),
            Repeat(_, parts) => parts.iter().for_each(|part| part.leaves(visit)),
        }
    }
}

fn of(value: Value, depth: u32) -> Expr {
    let ty = value.ty();
    if let Some(constant) = value.constant() {
        return Constant(ty.int_width().unwrap_or(64), constant);
    }
    let Some(width) = ty.int_width() else {
        return repeated(value, depth);
    };
    if value.is_null_or_undef() {
        return Constant(width, 0);
    }
    if depth == 0 || width > 64 {
        return Leaf(value);
    }
    let part = |at: u32| of(value.operand(at), depth - 1);
    match value.opcode() {
        Some(LLVMOpcode::LLVMZExt) => zext(width, part(0)),
        Some(LLVMOpcode::LLVMSExt) => sext(width, part(0)),
        Some(LLVMOpcode::LLVMTrunc) => trunc(width, part(0)),
        Some(LLVMOpcode::LLVMFreeze) => part(0),
        Some(LLVMOpcode::LLVMSelect) if value.operand(0).is(LLVMOpcode::LLVMICmp) => {
            let test = value.operand(0);
            let sides = [0, 1].map(|at| of(test.operand(at), depth - 1));
            if sides[0].width() == 0 {
                return Leaf(value);
            }
            let [left, right] = sides;
            select(test.predicate(), [left, right, part(1), part(2)])
        }
        Some(opcode) => match operation(value, opcode) {
            Some(op) => binary(op, part(0), part(1)),
            None => repeated(value, depth),
        },
        None => Leaf(value),
    }
}

/// The operation of an instruction or intrinsic, if it can be done anywhere.
fn operation(value: Value, opcode: LLVMOpcode) -> Option<Op> {
    let divisor = || value.operand(1).constant().filter(|&divisor| divisor != 0);
    let signed_divisor = || {
        let width = value.ty().int_width()?;
        divisor().filter(|&divisor| divisor != mask(width))
    };
    Some(match opcode {
        LLVMOpcode::LLVMAdd => Op::Add,
        LLVMOpcode::LLVMSub => Op::Sub,
        LLVMOpcode::LLVMMul => Op::Mul,
        LLVMOpcode::LLVMShl => Op::Shl,
        LLVMOpcode::LLVMLShr => Op::LShr,
        LLVMOpcode::LLVMAShr => Op::AShr,
        LLVMOpcode::LLVMAnd => Op::And,
        LLVMOpcode::LLVMOr => Op::Or,
        LLVMOpcode::LLVMXor => Op::Xor,
        LLVMOpcode::LLVMUDiv => divisor().map(|_| Op::UDiv)?,
        LLVMOpcode::LLVMURem => divisor().map(|_| Op::URem)?,
        LLVMOpcode::LLVMSDiv => signed_divisor().map(|_| Op::SDiv)?,
        LLVMOpcode::LLVMSRem => signed_divisor().map(|_| Op::SRem)?,
        LLVMOpcode::LLVMCall => {
            let name = value.callee()?.name();
            let intrinsics = [
                ("umax", Op::UMax),
                ("umin", Op::UMin),
                ("smax", Op::SMax),
                ("smin", Op::SMin),
            ];
            intrinsics
                .into_iter()
                .find(|(one, _)| {
                    name.strip_prefix("llvm.")
                        .is_some_and(|rest| rest.starts_with(one))
                })?
                .1
        }
        _ => return None,
    })
}

/// Floating-point arithmetic, conversions and calls of pure functions, to be repeated; else a leaf.
fn repeated(value: Value, depth: u32) -> Expr {
    let repeats = match value.opcode() {
        Some(
            LLVMOpcode::LLVMFAdd
            | LLVMOpcode::LLVMFSub
            | LLVMOpcode::LLVMFMul
            | LLVMOpcode::LLVMFDiv
            | LLVMOpcode::LLVMFNeg
            | LLVMOpcode::LLVMFPToUI
            | LLVMOpcode::LLVMFPToSI
            | LLVMOpcode::LLVMUIToFP
            | LLVMOpcode::LLVMSIToFP
            | LLVMOpcode::LLVMFPExt
            | LLVMOpcode::LLVMFPTrunc
            | LLVMOpcode::LLVMPtrToInt,
        ) => true,
        Some(LLVMOpcode::LLVMCall) => value.callee().is_some() && helpers::is_pure_call(value),
        _ => false,
    };
    if !repeats || depth == 0 {
        return Leaf(value);
    }
    let count = if value.is_call() {
        value.argument_count()
    } else {
        value.operands().count() as u32
    };
    Repeat(
        value,
        (0..count).map(|at| of(value.operand(at), depth - 1)).collect(),
    )
}

fn mask(width: u32) -> u64 {
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

/// Fewer bits.
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
