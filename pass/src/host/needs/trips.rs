//! Trips: the greatest number of iterations of a counting loop, and the greatest values of its variables.
use std::collections::HashSet;

use inkwell::llvm_sys::{LLVMIntPredicate as Predicate, LLVMOpcode};

use crate::host::ir::cfg::{Cfg, Loop};
use crate::host::ir::expr::{self, BinaryOp, Expr};
use crate::host::ir::{BasicBlock, Value};

/// How many runs of a loop over constants are played through.
const PLAYED: usize = 4096;

/// The most runs of the loop's body, as 64 bits: for loops that compare a variable which grows by a constant
/// with a bound before or after each run. It may read values of the loop's own, which then count as unknown
/// before it.
pub fn most(cfg: &Cfg, one: &Loop) -> Option<Expr> {
    let test = test(cfg, one)?;
    let (start, LoopChange::Add(step)) = course(cfg, one, test.variable)? else {
        return None;
    };
    let width = test.bound.ty().int_width().filter(|&width| width <= 64)?;
    let (start, bound) = (test.widened(start, width), Expr::of(test.bound));
    // If the test follows the body, the body runs once whatever the test gives.
    let before = Expr::number(u64::from(test.after));
    let first = match test.is_next {
        true => expr::binary(BinaryOp::Add, start, Expr::Constant(width, step)),
        false => start,
    };
    let inclusive = match test.goes_on {
        Predicate::LLVMIntSLE | Predicate::LLVMIntULE => true,
        Predicate::LLVMIntSLT | Predicate::LLVMIntULT => false,
        Predicate::LLVMIntNE if step == 1 => false,
        _ => return None,
    };
    let goes_on = match test.goes_on {
        Predicate::LLVMIntNE => Predicate::LLVMIntULT,
        other => other,
    };
    let number = |value| Expr::Constant(width, value);
    let span = expr::binary(BinaryOp::Sub, bound.clone(), first.clone());
    let raised = expr::binary(
        BinaryOp::Add,
        span,
        number(if inclusive { step } else { step - 1 }),
    );
    let runs = expr::binary(BinaryOp::UDiv, raised, number(step));
    let further = expr::zext(64, expr::select(goes_on, [first, bound, runs, number(0)]));
    Some(expr::binary(BinaryOp::Add, before, further))
}

/// The expression with the largest values of loop variables for these: at least what it comes to in any run,
/// where it grows with them. `is_known` tells which values stay as they are; others are of instructions.
pub fn at_largest(cfg: &Cfg, expression: &Expr, is_known: impl Fn(Value) -> bool) -> Expr {
    let mut now = expression.clone();
    let mut tried = HashSet::new();
    loop {
        let mut unknown = None;
        now.leaves(&mut |value| {
            if unknown.is_none() && !is_known(value) && !tried.contains(&value) {
                unknown = Some(value);
            }
        });
        let Some(variable) = unknown else { return now };
        tried.insert(variable);
        let block = cfg.point(variable).block;
        let Some(one) = cfg.loops_around(block).min_by_key(|one| one.body.len()) else {
            continue;
        };
        if grows_with(&now, variable) == Some(true)
            && let Some(largest) = largest(cfg, one, variable)
        {
            now = now.with_leaves(&mut |value| match value == variable {
                true => largest.clone(),
                false => Expr::Leaf(value),
            });
        }
    }
}

/// The largest value of a loop's variable.
fn largest(cfg: &Cfg, one: &Loop, variable: Value) -> Option<Expr> {
    let width = variable.ty().int_width().filter(|&width| width <= 64)?;
    let (start, change) = course(cfg, one, variable)?;
    let start = Expr::of(start);
    match change {
        LoopChange::Shrinks => Some(start),
        LoopChange::Add(step) => {
            let runs = expr::binary(BinaryOp::UMax, most(cfg, one)?, Expr::number(1));
            let further = expr::binary(BinaryOp::Sub, runs, Expr::number(1));
            let grown = expr::trunc(width, expr::binary(BinaryOp::Mul, further, Expr::number(step)));
            Some(expr::binary(BinaryOp::Add, start, grown))
        }
        LoopChange::Times(by) => {
            let test = test(cfg, one).filter(|test| test.variable == variable)?;
            let bound = expr::trunc(width, Expr::of(test.bound));
            if let (&Expr::Constant(_, first), &Expr::Constant(_, last)) = (&start, &bound) {
                return last_power(&test, width, [first, by, last]);
            }
            let below = match test.goes_on {
                Predicate::LLVMIntSLE | Predicate::LLVMIntULE => bound.clone(),
                Predicate::LLVMIntSLT | Predicate::LLVMIntULT => {
                    expr::binary(BinaryOp::Sub, bound.clone(), Expr::Constant(width, 1))
                }
                _ => return None,
            };
            Some(expr::select(test.goes_on, [start.clone(), bound, below, start]))
        }
    }
}

/// The last value of a variable that is multiplied from run to run, played through.
fn last_power(test: &Test, width: u32, [start, by, bound]: [u64; 3]) -> Option<Expr> {
    let mut value = start;
    for _ in 0..PLAYED {
        let next = value
            .checked_mul(by)
            .filter(|&next| width == 64 || next >> width == 0)?;
        if next == value {
            return None;
        }
        if !expr::holds(test.goes_on, width, next, bound) {
            return Some(Expr::Constant(width, value));
        }
        value = next;
    }
    None
}

/// How a loop decides on another run.
struct Test {
    /// What changes from run to run.
    variable: Value,
    /// That, or its next value, as it is compared.
    compared: Value,
    /// The value that the counter is compared with.
    bound: Value,
    /// The loop continues if `compared goes_on bound` holds.
    goes_on: Predicate,
    /// It is the next value; else the variable itself.
    is_next: bool,
    /// It is done after a run; else before it.
    after: bool,
}

impl Test {
    /// A value of the variable with as many bits as are compared.
    fn widened(&self, value: Value, width: u32) -> Expr {
        match self.compared.opcode() {
            Some(LLVMOpcode::LLVMSExt) => expr::sext(width, Expr::of(value)),
            _ => expr::zext(width, Expr::of(value)),
        }
    }
}

/// The test in a loop's header, or else in its only latch.
fn test(cfg: &Cfg, one: &Loop) -> Option<Test> {
    let mut latches = cfg.latches(one);
    let latch = latches.next().filter(|_| latches.next().is_none());
    let in_block = |block: usize, is_next: bool| {
        let (left, goes_on, right) = comparison(cfg, one, cfg.block(block))?;
        let sides = [(left, goes_on, right), (right, swapped(goes_on), left)];
        sides.into_iter().find_map(|(compared, goes_on, bound)| {
            let variable = tested(cfg, one, stripped(compared), is_next)?;
            Some(Test {
                variable,
                compared,
                bound,
                goes_on,
                is_next,
                after: is_next || latch == Some(block),
            })
        })
    };
    in_block(one.header, false).or_else(|| in_block(latch?, true))
}

/// The loop's variable behind what is compared: itself, or its next value.
fn tested(cfg: &Cfg, one: &Loop, compared: Value, is_next: bool) -> Option<Value> {
    let is_variable = |value: &Value| {
        value.is(LLVMOpcode::LLVMPHI) && value.is_instruction() && cfg.point(*value).block == one.header
    };
    if !is_next {
        return Some(compared).filter(is_variable);
    }
    let next = compared.is_instruction().then(|| compared.operand(0))?;
    let is_next = |variable: &Value| {
        let mut coming = variable.incoming_from();
        coming.any(|(value, from)| value == compared && one.body.contains(&cfg.number(from)))
    };
    Some(next).filter(is_variable).filter(is_next)
}

/// The comparison that ends a block and decides on another iteration, in the form that holds if the loop
/// continues.
fn comparison(cfg: &Cfg, one: &Loop, block: BasicBlock) -> Option<(Value, Predicate, Value)> {
    let exit = block.terminator()?;
    let stays: Vec<bool> = block
        .successors()
        .into_iter()
        .map(|next| one.body.contains(&cfg.number(next)))
        .collect();
    // A conditional branch: the way that is taken where the condition holds comes first.
    let &[yes, no] = stays.as_slice() else { return None };
    let test = exit.operand(0);
    if yes == no || !test.is(LLVMOpcode::LLVMICmp) {
        return None;
    }
    let predicate = test.predicate();
    let goes_on = if yes { predicate } else { expr::opposite(predicate) };
    Some((test.operand(0), goes_on, test.operand(1)))
}

fn swapped(predicate: Predicate) -> Predicate {
    match predicate {
        Predicate::LLVMIntUGT => Predicate::LLVMIntULT,
        Predicate::LLVMIntUGE => Predicate::LLVMIntULE,
        Predicate::LLVMIntULT => Predicate::LLVMIntUGT,
        Predicate::LLVMIntULE => Predicate::LLVMIntUGE,
        Predicate::LLVMIntSGT => Predicate::LLVMIntSLT,
        Predicate::LLVMIntSGE => Predicate::LLVMIntSLE,
        Predicate::LLVMIntSLT => Predicate::LLVMIntSGT,
        Predicate::LLVMIntSLE => Predicate::LLVMIntSGE,
        same => same,
    }
}

/// What becomes of a loop's variable from run to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopChange {
    /// So much is added, less than half of what fits.
    Add(u64),
    /// It is multiplied by so much, at least 2.
    Times(u64),
    /// It becomes less, or stays.
    Shrinks,
}

/// Where the loop's variable starts and how it changes each time, if it is one.
fn course(cfg: &Cfg, one: &Loop, variable: Value) -> Option<(Value, LoopChange)> {
    if !variable.is(LLVMOpcode::LLVMPHI) || cfg.point(variable).block != one.header {
        return None;
    }
    let mut start = None;
    let mut change = None;
    for (value, from) in variable.incoming_from() {
        if one.body.contains(&cfg.number(from)) {
            let by = changed(variable, value)?;
            if change.replace(by).is_some_and(|other| other != by) {
                return None;
            }
        } else if start.replace(value).is_some_and(|other| other != value) {
            return None;
        }
    }
    Some((start?, change?))
}

fn changed(variable: Value, next: Value) -> Option<LoopChange> {
    let opcode = next
        .opcode()
        .filter(|_| next.operands().next() == Some(variable))?;
    let by = next.operand(1).constant()?;
    let width = variable.ty().int_width()?;
    Some(match opcode {
        // What shrinks is added a large number.
        LLVMOpcode::LLVMAdd if (1..1 << 16).contains(&by) => LoopChange::Add(by),
        LLVMOpcode::LLVMAdd if by >> (width - 1) == 1 => LoopChange::Shrinks,
        LLVMOpcode::LLVMSub if by >> (width - 1) == 0 => LoopChange::Shrinks,
        LLVMOpcode::LLVMMul if (2..1 << 16).contains(&by) => LoopChange::Times(by),
        LLVMOpcode::LLVMShl if (1..16).contains(&by) => LoopChange::Times(1 << by),
        LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMSDiv if (1..1 << 16).contains(&by) => LoopChange::Shrinks,
        LLVMOpcode::LLVMLShr | LLVMOpcode::LLVMAShr => LoopChange::Shrinks,
        _ => return None,
    })
}

/// Whether an expression of sizes and counts, none of them negative, grows with a value that it reads, or
/// does not depend on it (false); none where it may become less.
fn grows_with(expression: &Expr, variable: Value) -> Option<bool> {
    let grows = |part: &Expr| grows_with(part, variable);
    match expression {
        Expr::Constant(..) => Some(false),
        Expr::Leaf(value) => Some(*value == variable),
        Expr::ZExt(_, inner) | Expr::SExt(_, inner) | Expr::Trunc(_, inner) => grows(inner),
        Expr::Binary(op, a, b) => {
            let (left, right) = (grows(a)?, grows(b)?);
            let keeps = match op {
                BinaryOp::Add
                | BinaryOp::AddSat
                | BinaryOp::UMax
                | BinaryOp::UMin
                | BinaryOp::SMax
                | BinaryOp::SMin => true,
                BinaryOp::Mul => ![a, b].into_iter().any(|part| is_negative(part)),
                BinaryOp::Sub | BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::LShr | BinaryOp::AShr => !right,
                BinaryOp::Shl => true,
                // Rounding down.
                BinaryOp::And => matches!(**b, Expr::Constant(width, mask)
                    if (mask | !(u64::MAX >> (64 - width))).leading_ones() + mask.trailing_zeros() == 64),
                BinaryOp::URem | BinaryOp::SRem | BinaryOp::Or | BinaryOp::Xor => false,
            };
            (keeps || !(left || right)).then_some(left || right)
        }
        // The runs of a loop, or none where it does not begin.
        Expr::Select(predicate, parts) if is_above(*predicate) && is_zero(&parts[3]) => {
            let [from, to, runs] = [0, 1, 2].map(|at| grows(&parts[at]));
            (from == Some(false)).then_some(runs? || to?)
        }
        Expr::Select(..) | Expr::Repeat(..) => {
            let mut reads = false;
            expression.leaves(&mut |value| reads |= value == variable);
            (!reads).then_some(false)
        }
    }
}

/// Whether a comparison holds from some size of its right side on.
fn is_above(predicate: Predicate) -> bool {
    matches!(
        predicate,
        Predicate::LLVMIntSLT | Predicate::LLVMIntULT | Predicate::LLVMIntSLE | Predicate::LLVMIntULE
    )
}

fn is_zero(expression: &Expr) -> bool {
    matches!(expression, Expr::Constant(_, 0))
}

fn is_negative(expression: &Expr) -> bool {
    matches!(*expression, Expr::Constant(width, value) if value >> (width - 1) == 1)
}

/// The variable behind an extension to more bits.
fn stripped(value: Value) -> Value {
    match value.opcode() {
        Some(LLVMOpcode::LLVMSExt | LLVMOpcode::LLVMZExt) => value.operand(0),
        _ => value,
    }
}
