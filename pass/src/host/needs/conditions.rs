//! Conditions: an allocation behind a branch counts only where the branch is taken, if that is known as the task
//! begins.
//!
//! Only what must hold for the allocation to run is looked at: the branches on the way down the dominator tree
//! to it, of each the one side that leads there. What is not known at the begin, such as whether an earlier
//! allocation succeeded, is taken to hold: the need then counts what may be allocated.
use inkwell::llvm_sys::{LLVMIntPredicate as Predicate, LLVMOpcode};

use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::expr::{self, Expr, opposite};

/// How many branches are looked at for one allocation, and how many parts of the condition of one.
const MAX_BRANCHES: usize = 16;

/// One comparison that must hold.
#[derive(Clone, Debug)]
pub struct Condition {
    /// What is compared, how, and with what.
    pub left: Expr,
    predicate: Predicate,
    /// The right side.
    pub right: Expr,
}

impl Condition {
    /// The size where the condition holds, else nothing.
    pub fn of(self, size: Expr) -> Expr {
        expr::select(self.predicate, [self.left, self.right, size, Expr::number(0)])
    }
}

/// What must hold for an allocation to run in a task that begins there.
pub fn of(cfg: &Cfg, call: Value, begin: Point) -> Vec<Condition> {
    let mut found = Vec::new();
    let point = cfg.point(call);
    let follows = cfg.passes_before(begin, point);
    let mut block = point.block;
    for _ in 0..MAX_BRANCHES {
        let Some(above) = cfg.immediate_dominator(block).filter(|&above| above != block) else {
            break;
        };
        // What is decided before the begin is decided.
        let is_before = follows && !(above == begin.block || cfg.dominates_block(begin.block, above));
        if is_before {
            break;
        }
        if let Some(exit) = cfg.block(above).terminator()
            && let Some(taken) = side(cfg, above, block, begin)
            && exit
                .operands()
                .next()
                .is_some_and(|test| test.ty().int_width() == Some(1))
        {
            collect(exit.operand(0), taken, &mut found);
        }
        block = above;
    }
    if !follows {
        // It may have run in an earlier iteration, with other values.
        let is_fixed = |one: &Condition| {
            let mut fixed = true;
            for part in [&one.left, &one.right] {
                part.leaves(&mut |value| {
                    fixed &=
                        !value.is_instruction() || cfg.loops_around(cfg.point(value).block).next().is_none();
                });
            }
            fixed
        };
        found.retain(is_fixed);
    }
    found
}

/// The side of a conditional branch that leads to a block, if the other does not, and comes back to the caller:
/// where the process ends, what was asked for does not matter. Nor does a branch that leads to the begin as well:
/// it holds there.
fn side(cfg: &Cfg, from: usize, to: usize, begin: Point) -> Option<bool> {
    let next: Vec<usize> = cfg
        .block(from)
        .successors()
        .into_iter()
        .map(|next| cfg.number(next))
        .collect();
    let &[yes, no] = next.as_slice() else { return None };
    let leads = |next: usize| cfg.predecessors(next) == [from] && cfg.dominates_block(next, to);
    let (taken, own, other) = match (yes != no && leads(yes), yes != no && leads(no)) {
        (true, false) => (true, yes, no),
        (false, true) => (false, no, yes),
        _ => return None,
    };
    if cfg.dominates_block(own, begin.block) {
        return None;
    }
    let returns = |&block: &usize| {
        let last = cfg.block(block).terminator();
        last.is_some_and(|last| last.is(LLVMOpcode::LLVMRet))
    };
    cfg.reaching((0..cfg.len()).filter(returns))
        .contains(&other)
        .then_some(taken)
}

/// The comparisons that hold where a condition is what it is taken for.
fn collect(test: Value, taken: bool, found: &mut Vec<Condition>) {
    if found.len() >= MAX_BRANCHES {
        return;
    }
    let is = |value: Value, constant: u64| value.constant() == Some(constant);
    match test.opcode() {
        Some(LLVMOpcode::LLVMICmp) => {
            let sides = [0, 1].map(|at| Expr::of(test.operand(at)));
            if sides.iter().all(|side| (1..=64).contains(&side.width())) {
                let [left, right] = sides;
                let predicate = if taken {
                    test.predicate()
                } else {
                    opposite(test.predicate())
                };
                found.push(Condition {
                    left,
                    predicate,
                    right,
                });
                return;
            }
        }
        Some(LLVMOpcode::LLVMXor) if is(test.operand(1), 1) => {
            return collect(test.operand(0), !taken, found);
        }
        Some(LLVMOpcode::LLVMFreeze) => return collect(test.operand(0), taken, found),
        Some(LLVMOpcode::LLVMAnd) if taken => {
            return [0, 1]
                .into_iter()
                .for_each(|at| collect(test.operand(at), true, found));
        }
        Some(LLVMOpcode::LLVMOr) if !taken => {
            return [0, 1]
                .into_iter()
                .for_each(|at| collect(test.operand(at), false, found));
        }
        // `a && b`, `a || b`.
        Some(LLVMOpcode::LLVMSelect) if taken && is(test.operand(2), 0) => {
            return [0, 1]
                .into_iter()
                .for_each(|at| collect(test.operand(at), true, found));
        }
        Some(LLVMOpcode::LLVMSelect) if !taken && is(test.operand(1), 1) => {
            return [0, 2]
                .into_iter()
                .for_each(|at| collect(test.operand(at), false, found));
        }
        _ => {}
    }
    found.push(Condition {
        left: Expr::of(test),
        predicate: if taken {
            Predicate::LLVMIntNE
        } else {
            Predicate::LLVMIntEQ
        },
        right: Expr::Constant(1, 0),
    });
}
