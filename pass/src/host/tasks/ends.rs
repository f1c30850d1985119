//! Placement of `task_end`: where control leaves the region in which the task is still used.
//!
//! After its begin a task is in use as long as one of its ops can still execute. Where the last op is in the
//! middle of a block, the end follows it; elsewhere the end is on the edges that leave the region. Paths on
//! which the process ends need no end. Control may pass several ends, or an end without a begin: the handle
//! is then 0, and ending 0 does nothing.
use std::collections::{BTreeMap, BTreeSet, HashSet};

use inkwell::llvm_sys::LLVMOpcode;

use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::{BasicBlock, Value};

/// LLVM's call for the place where a coroutine is suspended.
const SUSPEND: &str = "llvm.coro.suspend";

/// Where a task ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Behind this instruction.
    After(Value),
    /// At the head of a block that is only reached from the task's region, or of a landing pad.
    Head(BasicBlock),
    /// On the edge between two blocks.
    Edge(BasicBlock, BasicBlock),
}

/// What matters at a point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskEvent {
    /// The task begins: what comes before does not need it.
    Begin,
    /// The next run of the task starts to allocate.
    Renewal,
    /// An op of the task.
    Op,
}

/// The ends of a task, in the order of blocks. `ops` are its touching ops, its frees and its allocations.
pub fn ends(cfg: &Cfg, begin: Point, ops: &[(Value, bool)]) -> Vec<End> {
    let events = events(cfg, begin, ops);
    let needed = needed(cfg, &events);
    let begun = begun(cfg, begin.block);
    let exits = exits(cfg, begin.block);
    let mut ends = Vec::new();
    let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for block in (0..cfg.len()).filter(|block| begun.contains(block)) {
        let goes_on = cfg
            .successors(block)
            .into_iter()
            .any(|next| needed.contains(&next));
        if let Some(last) = last_op(cfg, block, &events[block], goes_on)
            && exits.contains(&block)
        {
            ends.push(End::After(last));
            continue;
        }
        let at_end = goes_on || ends_in_op(cfg, block, &events[block]);
        for next in cfg.successors(block) {
            let leaves = !needed.contains(&next) && !suspends(cfg, block, next);
            if at_end && leaves && exits.contains(&next) {
                edges.entry(next).or_default().insert(block);
            }
        }
    }
    for (to, from) in edges {
        let all = cfg.predecessors(to).iter().all(|before| from.contains(before));
        let target = cfg.block(to);
        let pad = target
            .instructions()
            .any(|one| one.is(LLVMOpcode::LLVMLandingPad));
        if all || pad {
            ends.push(End::Head(target));
        } else {
            ends.extend(from.into_iter().map(|from| End::Edge(cfg.block(from), target)));
        }
    }
    ends
}

fn events(cfg: &Cfg, begin: Point, ops: &[(Value, bool)]) -> Vec<Vec<(usize, TaskEvent)>> {
    let mut events = vec![Vec::new(); cfg.len()];
    events[begin.block].push((begin.at, TaskEvent::Begin));
    for &(op, allocates) in ops {
        let point = cfg.point(op);
        let renews = allocates && !cfg.passes_before(begin, point);
        events[point.block].push((point.at, if renews { TaskEvent::Renewal } else { TaskEvent::Op }));
    }
    for block in &mut events {
        // The begin stands in front of the instruction at its place.
        block.sort_by_key(|&(at, event)| (at, event != TaskEvent::Begin));
    }
    events
}

/// The blocks at whose start one of the ops can still execute.
fn needed(cfg: &Cfg, events: &[Vec<(usize, TaskEvent)>]) -> HashSet<usize> {
    let mut needed = HashSet::new();
    let mut queue: Vec<usize> = (0..cfg.len()).collect();
    while let Some(block) = queue.pop() {
        let is_needed = match events[block].first() {
            Some((_, first)) => *first == TaskEvent::Op,
            None => cfg.successors(block).iter().any(|next| needed.contains(next)),
        };
        if is_needed && needed.insert(block) {
            queue.extend(cfg.predecessors(block));
        }
    }
    needed
}

/// The blocks at whose end the task may have begun.
fn begun(cfg: &Cfg, begin: usize) -> HashSet<usize> {
    let mut begun = HashSet::new();
    let mut queue = vec![begin];
    while let Some(block) = queue.pop() {
        if begun.insert(block) {
            queue.extend(cfg.successors(block));
        }
    }
    begun
}

/// The blocks from which the function can be left other than by the end of the process, or from which the
/// task can begin again. Unwinding out of `main` ends the process.
fn exits(cfg: &Cfg, begin: usize) -> HashSet<usize> {
    let unwinds = cfg.function.name() != "main";
    let leaving = (0..cfg.len()).filter(|&block| {
        cfg.block(block)
            .terminator()
            .is_some_and(|last| last.is(LLVMOpcode::LLVMRet) || (unwinds && last.is(LLVMOpcode::LLVMResume)))
    });
    let again = cfg
        .successors(begin)
        .into_iter()
        .any(|next| cfg.reaching([begin]).contains(&next));
    cfg.reaching(leaving.chain(again.then_some(begin)))
}

/// Whether control leaves a coroutine on this edge only until that is resumed: the task goes on then.
fn suspends(cfg: &Cfg, from: usize, to: usize) -> bool {
    let block = cfg.block(from);
    let is_switch = |last: &Value| last.is(LLVMOpcode::LLVMSwitch);
    let Some(switch) = block.terminator().filter(is_switch) else {
        return false;
    };
    let callee = switch.operand(0).callee();
    let asks = callee.is_some_and(|callee| callee.name() == SUSPEND);
    // The first is where it goes by default; the others are those on which the coroutine goes on or is destroyed.
    let mut successors = block.successors().into_iter().map(|next| cfg.number(next));
    asks && successors.next() == Some(to) && successors.all(|next| next != to)
}

/// The op in the middle of a block after which no other executes.
fn last_op(cfg: &Cfg, block: usize, events: &[(usize, TaskEvent)], goes_on: bool) -> Option<Value> {
    let after = |at: usize| match events.get(at + 1) {
        Some((_, next)) => *next == TaskEvent::Op,
        None => goes_on,
    };
    let last = (0..events.len())
        .rev()
        .find(|&at| events[at].1 == TaskEvent::Op && !after(at))?;
    let instruction = cfg.block(block).instructions().nth(events[last].0)?;
    (Some(instruction) != cfg.block(block).terminator()).then_some(instruction)
}

fn ends_in_op(cfg: &Cfg, block: usize, events: &[(usize, TaskEvent)]) -> bool {
    let last = cfg.block(block).instructions().count().saturating_sub(1);
    events.last() == Some(&(last, TaskEvent::Op))
}
