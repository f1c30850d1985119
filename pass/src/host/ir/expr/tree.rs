//! The tree of an expression: its nodes, its width, and its leaves.
use std::rc::Rc;

use inkwell::llvm_sys::LLVMIntPredicate;

use crate::host::ir::Value;

/// An operation on two values of the same width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// Wrapping, as the program computes.
    Add,
    /// Subtraction that wraps around.
    Sub,
    /// Multiplication that wraps around.
    Mul,
    /// Unsigned, by a constant that is not 0.
    UDiv,
    /// Signed, by a constant that is neither 0 nor -1.
    SDiv,
    /// Unsigned, by a constant that is not 0.
    URem,
    /// Signed, by a constant that is neither 0 nor -1.
    SRem,
    /// A shift to the left.
    Shl,
    /// Right shift, filling with zeroes.
    LShr,
    /// Right shift, filling with the sign.
    AShr,
    /// The bitwise and.
    And,
    /// The bitwise or.
    Or,
    /// The bitwise exclusive or.
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

/// An expression over values of the function.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A number of so many bits.
    Constant(u32, u64),
    /// A value that is taken as it is.
    Leaf(Value),
    /// An operation on two expressions.
    Binary(BinaryOp, Rc<Expr>, Rc<Expr>),
    /// More bits, zeroes.
    ZExt(u32, Rc<Expr>),
    /// More bits, the sign.
    SExt(u32, Rc<Expr>),
    /// The low bits of an expression.
    Trunc(u32, Rc<Expr>),
    /// One of two, by a comparison: predicate, its sides, then the two.
    Select(LLVMIntPredicate, Rc<[Expr; 4]>),
    /// An instruction without side effects that can be repeated elsewhere on these operands.
    Repeat(Value, Rc<[Expr]>),
}

use Expr::{Binary, Constant, Leaf, Repeat, SExt, Select, Trunc, ZExt};

impl Expr {
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
    pub fn bits(&self) -> u32 {
        let width = self.width();
        let bits = match self {
            Constant(_, value) => 64 - value.leading_zeros(),
            ZExt(_, inner) | Trunc(_, inner) => inner.bits(),
            Binary(op, a, b) => match (op, b.as_ref()) {
                (BinaryOp::LShr, &Constant(_, by)) => a.bits().saturating_sub(by.min(64) as u32),
                (BinaryOp::Shl, &Constant(_, by)) => a.bits().saturating_add(by.min(64) as u32),
                (BinaryOp::And | BinaryOp::UMin, _) => a.bits().min(b.bits()),
                (BinaryOp::Or | BinaryOp::Xor | BinaryOp::UMax, _) => a.bits().max(b.bits()),
                (BinaryOp::Mul, _) => a.bits() + b.bits(),
                (BinaryOp::Add | BinaryOp::AddSat, _) => a.bits().max(b.bits()) + 1,
                (BinaryOp::UDiv | BinaryOp::URem, _) => a.bits(),
                _ => width,
            },
            Select(_, parts) => parts[2].bits().max(parts[3].bits()),
            Leaf(_) | SExt(..) | Repeat(..) => width,
        };
        bits.min(width)
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
