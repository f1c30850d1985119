//! Lifetimes: which objects of a task may be alive at the same time.
//!
//! From each allocation, control is followed until the object is known to be freed or the task begins again;
//! the allocations found on the way may be alive at the same time. An error path that leaves early adds
//! nothing.
use std::collections::HashSet;

use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Loop, Point};
use crate::host::ir::expr::Expr;
use crate::host::ir::memory;
use crate::host::needs::trips;
use crate::host::objects::ops::OpKind;
use crate::host::objects::{Objects, PointerStore};

/// An event at a point.
#[derive(Clone)]
enum LifeEvent {
    /// The object with this number is allocated.
    Allocate(usize),
    /// A free, by its number.
    Free(usize),
    /// A loop begins that frees an object of a class in each run.
    FreeAll(Frees),
    /// Another address is put into this slot.
    Overwrite(usize),
    /// The task begins.
    Begin,
}

/// A call that frees an object.
struct Free {
    block: usize,
    class: usize,
    /// The slot whose present content is freed.
    slot: Option<usize>,
}

/// What a loop frees: an object in each of its runs.
#[derive(Clone)]
struct Frees {
    class: usize,
    runs: Expr,
}

/// The objects of a task and what happens to them.
pub struct Lifetimes<'a> {
    cfg: &'a Cfg,
    begin: Point,
    /// Per object: where it is allocated, its class, the slot that gets its address.
    allocations: Vec<(Value, usize, usize)>,
    /// Slots that stand for several places of a variable.
    shared: HashSet<usize>,
    frees: Vec<Free>,
    events: Vec<Vec<(usize, LifeEvent)>>,
}

/// How far the life of an object has been followed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ObjectLife {
    block: usize,
    /// The slot still holds the object's address.
    held: bool,
    /// The task has begun since.
    begun: bool,
}

impl<'a> Lifetimes<'a> {
    /// For the task with these ops.
    pub fn new(cfg: &'a Cfg, objects: &Objects, ops: &[usize], begin: Point) -> Self {
        let mut this = Self {
            cfg,
            begin,
            allocations: Vec::new(),
            shared: HashSet::new(),
            frees: Vec::new(),
            events: vec![Vec::new(); cfg.len()],
        };
        let mut slots = HashSet::new();
        for op in ops.iter().map(|&number| &objects.ops[number]) {
            let Some(&node) = op.nodes.first() else { continue };
            match op.kind {
                OpKind::Allocate(_) => {
                    this.event(cfg.point(op.call), LifeEvent::Allocate(this.allocations.len()));
                    this.allocations.push((op.call, objects.class(node), node));
                    slots.insert(node);
                    if matches!(objects.node(node), Some(PointerStore::Any(_))) {
                        this.shared.insert(node);
                    }
                }
                OpKind::Free => {
                    this.event(cfg.point(op.call), LifeEvent::Free(this.frees.len()));
                    let slot = freed_slot(cfg, objects, op.call);
                    this.frees.push(Free {
                        block: cfg.point(op.call).block,
                        class: objects.class(node),
                        slot,
                    });
                }
                _ => {}
            }
        }
        for slot in slots {
            for &store in objects.stores_to(slot) {
                if cfg.is_reachable(cfg.point(store).block) {
                    this.event(cfg.point(store), LifeEvent::Overwrite(slot));
                }
            }
        }
        this.find_freeing_loops();
        this.event(begin, LifeEvent::Begin);
        for events in &mut this.events {
            // The begin stands in front of the instruction at its place.
            events.sort_by_key(|(at, event)| (*at, !matches!(event, LifeEvent::Begin)));
        }
        this
    }

    /// Loops that free something in each run, and allocate nothing.
    fn find_freeing_loops(&mut self) {
        let mut found = Vec::new();
        for free in self.frees.iter().filter(|free| free.slot.is_none()) {
            let Some(one) = self.cfg.loops_around(free.block).min_by_key(|one| one.body.len()) else {
                continue;
            };
            let allocates =
                |(call, ..): &(Value, usize, usize)| one.body.contains(&self.cfg.point(*call).block);
            let always = self
                .cfg
                .latches(one)
                .all(|latch| self.cfg.dominates_block(free.block, latch));
            if let Some(runs) = trips::most(self.cfg, one)
                && always
                && !self.allocations.iter().any(allocates)
            {
                let class = free.class;
                found.push((one.header, Frees { class, runs }));
            }
        }
        for (block, frees) in found {
            self.event(Point { block, at: 0 }, LifeEvent::FreeAll(frees));
        }
    }

    /// How many objects a place allocates, if that is in one loop that counts.
    fn runs_of(&self, call: Value) -> Option<Expr> {
        let around = self.cfg.loops_around(self.cfg.point(call).block);
        let mut piling = around.filter(|one| !one.body.contains(&self.begin.block));
        let one = piling.next()?;
        piling
            .next()
            .is_none()
            .then(|| trips::most(self.cfg, one))
            .flatten()
    }

    fn event(&mut self, point: Point, event: LifeEvent) {
        self.events[point.block].push((point.at, event));
    }

    /// The objects that may be alive when others are allocated, and whether one may pile up.
    pub fn beside(&self, object: usize) -> (HashSet<usize>, bool) {
        let (beside, repeats) = self.follow(object, false);
        match repeats {
            true => self.follow(object, true),
            false => (beside, false),
        }
    }

    /// Whether the objects that accumulate are kept until the task ends or a loop frees them: then they can
    /// be counted.
    pub fn is_counted(&self, object: usize) -> bool {
        let (call, class, slot) = self.allocations[object];
        let made = self.cfg.point(call).block;
        let piling = |one: &&Loop| !one.body.contains(&self.begin.block);
        if self
            .cfg
            .loops_around(made)
            .filter(piling)
            .any(|one| self.ends_early(one, class))
        {
            return false;
        }
        let mut frees = self.frees.iter().filter(|free| free.class == class);
        match self.shared.contains(&slot) {
            true => frees.all(|free| {
                let mut around = self.cfg.loops_around(made).filter(piling);
                !around.any(|one| one.body.contains(&free.block))
            }),
            false => frees.next().is_none(),
        }
    }

    /// Whether a loop behind the begin can be left in several places, after which its objects are freed: how often it
    /// runs at most says nothing then. Where a call of CUDA has failed is none of them.
    fn ends_early(&self, one: &Loop, class: usize) -> bool {
        let cfg = self.cfg;
        if !cfg.dominates_block(self.begin.block, one.header) {
            return false;
        }
        let frees = self.frees.iter().filter(|free| free.class == class);
        let freeing = cfg.reaching(frees.map(|free| free.block));
        let leaves = |&&block: &&usize| {
            let mut next = cfg.successors(block).into_iter();
            next.any(|next| !one.body.contains(&next) && freeing.contains(&next))
        };
        let places = one.body.iter().filter(leaves);
        places.filter(|&&block| !asks_cuda(cfg, block)).count() > 1
    }

    /// Follows one object, or all that one place allocates over and over.
    fn follow(&self, object: usize, many: bool) -> (HashSet<usize>, bool) {
        let (call, ..) = self.allocations[object];
        let start = self.cfg.point(call);
        let mut beside = HashSet::new();
        let mut repeats = false;
        let mut seen = HashSet::new();
        let begun = self.cfg.passes_before(self.begin, start);
        let first = ObjectLife {
            block: start.block,
            held: true,
            begun,
        };
        let mut queue = Vec::new();
        if call.is(LLVMOpcode::LLVMInvoke) {
            queue.push(ObjectLife {
                block: self.cfg.number(call.normal_successor()),
                ..first
            });
        } else if let Some(state) = self.walk(object, many, first, start.at + 1, &mut beside, &mut repeats) {
            queue.extend(self.next(call, many, state));
        }
        while let Some(state) = queue.pop() {
            if seen.insert(state)
                && let Some(end) = self.walk(object, many, state, 0, &mut beside, &mut repeats)
            {
                queue.extend(self.next(call, many, end));
            }
        }
        (beside, repeats)
    }

    /// Where an object may go on to live from the end of a block: not where its allocation is known to have
    /// failed.
    fn next(&self, call: Value, many: bool, state: ObjectLife) -> impl Iterator<Item = ObjectLife> {
        // An older object of the same place lives on.
        let failed = (state.held && !many)
            .then(|| failed_side(self.cfg, state.block, call))
            .flatten();
        let next = self.cfg.successors(state.block).into_iter();
        next.filter(move |&block| Some(block) != failed)
            .map(move |block| ObjectLife { block, ..state })
    }

    /// Follows one block from an instruction on. None when the object's life ends in it.
    fn walk(
        &self,
        object: usize,
        many: bool,
        mut state: ObjectLife,
        from: usize,
        beside: &mut HashSet<usize>,
        repeats: &mut bool,
    ) -> Option<ObjectLife> {
        let (call, class, slot) = self.allocations[object];
        let alone = |class| {
            self.allocations
                .iter()
                .filter(|(_, one, _)| *one == class)
                .count()
                == 1
        };
        for (at, event) in &self.events[state.block] {
            if *at < from {
                continue;
            }
            match *event {
                LifeEvent::Begin if state.begun => return None,
                LifeEvent::Begin => state.begun = true,
                LifeEvent::Overwrite(other) => state.held &= other != slot,
                LifeEvent::Allocate(other) => {
                    let (other_call, other_class, other_slot) = self.allocations[other];
                    if state.begun && !self.cfg.passes_before(self.begin, self.cfg.point(other_call)) {
                        return None;
                    }
                    *repeats |= other == object;
                    beside.insert(other);
                    let refills =
                        other_slot == slot || (self.shared.contains(&other_slot) && other_class == class);
                    state.held &= !refills;
                }
                LifeEvent::Free(free) => {
                    let free = &self.frees[free];
                    let this_one = state.held && free.slot == Some(slot) && !many;
                    if free.class == class && ((alone(class) && !many) || this_one) {
                        return None;
                    }
                }
                LifeEvent::FreeAll(ref frees) => {
                    if many
                        && frees.class == class
                        && alone(class)
                        && self.runs_of(call).as_ref() == Some(&frees.runs)
                    {
                        return None;
                    }
                }
            }
        }
        Some(state)
    }
}

/// Whether a block ends in a branch by what a call of CUDA has answered.
fn asks_cuda(cfg: &Cfg, block: usize) -> bool {
    let branch = cfg.block(block).terminator();
    let test = branch.and_then(|branch| branch.operands().next());
    let test = test.filter(|test| test.is(LLVMOpcode::LLVMICmp));
    let callee = test.and_then(|test| test.operand(0).callee());
    callee.is_some_and(|callee| callee.name().starts_with("cuda"))
}

/// The slot that a free has just read its pointer from.
fn freed_slot(cfg: &Cfg, objects: &Objects, call: Value) -> Option<usize> {
    let load = call.operand(0);
    if !load.is(LLVMOpcode::LLVMLoad) {
        return None;
    }
    let (variable, offset) = memory::address(load.operand(0));
    let slot = objects.number(PointerStore::Slot(variable, offset?))?;
    let (read, freed) = (cfg.point(load), cfg.point(call));
    let between = |value: Value| {
        let point = cfg.point(value);
        point.block == freed.block && (read.at..freed.at).contains(&point.at)
    };
    let refilled = objects
        .ops
        .iter()
        .any(|op| op.nodes.first() == Some(&slot) && between(op.call));
    let stored = objects.stores_to(slot).iter().any(|&store| between(store));
    (read.block == freed.block && !refilled && !stored).then_some(slot)
}

/// The block that a branch goes to where this call, compared with a constant, has not given success.
fn failed_side(cfg: &Cfg, block: usize, call: Value) -> Option<usize> {
    let exit = cfg.block(block).terminator()?;
    let next: Vec<usize> = cfg
        .block(block)
        .successors()
        .into_iter()
        .map(|next| cfg.number(next))
        .collect();
    let &[yes, no] = next.as_slice() else { return None };
    let test = exit
        .operands()
        .next()
        .filter(|test| test.is(LLVMOpcode::LLVMICmp))?;
    let code = test.operand(1).constant().filter(|_| test.operand(0) == call)?;
    let is_success = code == 0;
    let failed = match test.predicate() {
        LLVMIntPredicate::LLVMIntEQ => {
            if is_success {
                no
            } else {
                yes
            }
        }
        LLVMIntPredicate::LLVMIntNE => {
            if is_success {
                yes
            } else {
                no
            }
        }
        _ => return None,
    };
    (yes != no).then_some(failed)
}
