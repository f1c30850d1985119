//! Building: the expression of a value of the program, and expressions with other leaves.
use inkwell::llvm_sys::LLVMOpcode;

use super::fold::{binary, mask, select, sext, trunc, zext};
use super::tree::{BinaryOp, Expr};
use crate::host::ir::Value;
use crate::host::ir::helpers;
use Expr::{Binary, Constant, Leaf, Repeat, SExt, Select, Trunc, ZExt};

/// How deep values are taken apart.
const DEPTH: u32 = 48;

impl Expr {
    /// A value of the program.
    pub fn of(value: Value) -> Expr {
        of(value, DEPTH)
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
fn operation(value: Value, opcode: LLVMOpcode) -> Option<BinaryOp> {
    let divisor = || value.operand(1).constant().filter(|&divisor| divisor != 0);
    let signed_divisor = || {
        let width = value.ty().int_width()?;
        divisor().filter(|&divisor| divisor != mask(width))
    };
    Some(match opcode {
        LLVMOpcode::LLVMAdd => BinaryOp::Add,
        LLVMOpcode::LLVMSub => BinaryOp::Sub,
        LLVMOpcode::LLVMMul => BinaryOp::Mul,
        LLVMOpcode::LLVMShl => BinaryOp::Shl,
        LLVMOpcode::LLVMLShr => BinaryOp::LShr,
        LLVMOpcode::LLVMAShr => BinaryOp::AShr,
        LLVMOpcode::LLVMAnd => BinaryOp::And,
        LLVMOpcode::LLVMOr => BinaryOp::Or,
        LLVMOpcode::LLVMXor => BinaryOp::Xor,
        LLVMOpcode::LLVMUDiv => divisor().map(|_| BinaryOp::UDiv)?,
        LLVMOpcode::LLVMURem => divisor().map(|_| BinaryOp::URem)?,
        LLVMOpcode::LLVMSDiv => signed_divisor().map(|_| BinaryOp::SDiv)?,
        LLVMOpcode::LLVMSRem => signed_divisor().map(|_| BinaryOp::SRem)?,
        LLVMOpcode::LLVMCall => {
            let name = value.callee()?.name();
            let intrinsics = [
                ("umax", BinaryOp::UMax),
                ("umin", BinaryOp::UMin),
                ("smax", BinaryOp::SMax),
                ("smin", BinaryOp::SMin),
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
