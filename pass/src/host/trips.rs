//! Trips: how often the body of a counting loop runs at most.
use inkwell::llvm_sys::{LLVMIntPredicate as Predicate, LLVMOpcode};

use super::cfg::{Cfg, Loop};
use super::expr::{self, Expr, Op};
use super::ir::Value;

/// The most runs of the loop's body, as 64 bits: for loops that compare a variable which grows by a constant with a bound
/// before each run. It may read values of the loop's own, which then count as unknown before it.
pub fn most(cfg: &Cfg, one: &Loop) -> Option<Expr> {
    let header = cfg.block(one.header);
    let exit = header.terminator()?;
    let stays: Vec<bool> = header
        .successors()
        .into_iter()
        .map(|next| one.body.contains(&cfg.number(next)))
        .collect();
    // A conditional branch: the way that is taken where the condition holds comes first.
    let &[true, false] = stays.as_slice() else {
        return None;
    };
    let test = exit.operand(0);
    if !test.is(LLVMOpcode::LLVMICmp) {
        return None;
    }
    let (variable, bound) = (test.operand(0), test.operand(1));
    let (start, step) = growth(cfg, one, stripped(variable))?;
    let width = variable.ty().int_width().filter(|&width| width <= 64)?;
    let (start, bound) = (widened(start, variable, width), Expr::of(bound));
    let signed = match test.predicate() {
        Predicate::LLVMIntSLT | Predicate::LLVMIntSLE => true,
        Predicate::LLVMIntULT | Predicate::LLVMIntULE => false,
        Predicate::LLVMIntNE if step == 1 => false,
        _ => return None,
    };
    let inclusive = matches!(test.predicate(), Predicate::LLVMIntSLE | Predicate::LLVMIntULE);
    let goes_on = match (inclusive, signed) {
        (true, true) => Predicate::LLVMIntSLE,
        (true, false) => Predicate::LLVMIntULE,
        (false, true) => Predicate::LLVMIntSLT,
        (false, false) => Predicate::LLVMIntULT,
    };
    let number = |value| Expr::Constant(width, value);
    let span = expr::binary(Op::Sub, bound.clone(), start.clone());
    let raised = expr::binary(Op::Add, span, number(if inclusive { step } else { step - 1 }));
    let runs = expr::binary(Op::UDiv, raised, number(step));
    Some(expr::zext(
        64,
        expr::select(goes_on, [start, bound, runs, number(0)]),
    ))
}

/// Where the loop's variable starts and by how much it grows each time, if it is one.
fn growth(cfg: &Cfg, one: &Loop, variable: Value) -> Option<(Value, u64)> {
    if !variable.is(LLVMOpcode::LLVMPHI) || cfg.point(variable).block != one.header {
        return None;
    }
    let mut start = None;
    let mut step = None;
    for (value, from) in variable.incoming_from() {
        if one.body.contains(&cfg.number(from)) {
            let grows = value.is(LLVMOpcode::LLVMAdd) && value.operand(0) == variable;
            let by = grows.then(|| value.operand(1).constant()).flatten()?;
            // What shrinks is added a large number.
            if !(1..1 << 16).contains(&by) || step.is_some_and(|other| other != by) {
                return None;
            }
            step = Some(by);
        } else if start.replace(value).is_some_and(|other| other != value) {
            return None;
        }
    }
    Some((start?, step?))
}

/// The variable behind an extension to more bits.
fn stripped(value: Value) -> Value {
    match value.opcode() {
        Some(LLVMOpcode::LLVMSExt | LLVMOpcode::LLVMZExt) => value.operand(0),
        _ => value,
    }
}

/// The start with as many bits as are compared.
fn widened(start: Value, compared: Value, width: u32) -> Expr {
    match compared.opcode() {
        Some(LLVMOpcode::LLVMSExt) => expr::sext(width, Expr::of(start)),
        _ => expr::zext(width, Expr::of(start)),
    }
}
