//! Reads: sizes that the program reads from memory after the task has begun, and that the probe reads at its
//! begin.
//!
//! Programs keep sizes in globals, in variables whose address they gave away and in structures, and read them
//! anew for every allocation, with calls of the runtime, of `printf` and stores to arrays in between. Two
//! things must hold for the early read.
//!
//! It gives the same value. As long as nothing in between writes the memory by its name, it is taken to be
//! unchanged: a function that is not given its address, and does not store to it in this module, leaves it
//! alone. Should another file do so nevertheless, the need is inexact, and lazyrt grows the task.
//!
//! It does not fault where the program would not. Variables can always be read. Other memory is read early if
//! control surely comes to the program's own read, so that it would fault there too: no branch returns before
//! it, and no call that may end the process or throw stands before it (`calls`), unless the bytes are known
//! to be there, by an attribute or an access before the begin. A pointer or an index that is read early
//! itself must surely be unchanged: no unknown function is called in between.
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use inkwell::llvm_sys::LLVMOpcode;

use crate::host::collect::Collected;
use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::expr::Expr;
use crate::host::ir::helpers;
use crate::host::ir::memory;
use crate::host::needs::locations::{Base, DEPTH, Location};
use crate::host::needs::writes::Writes;

/// The reads of one function, for tasks that begin at one point.
pub struct Reads<'a> {
    collected: &'a Collected,
    cfg: &'a Cfg,
    /// Where the task begins.
    pub begin: Point,
    /// Each location that is read at the begin, with the load that is repeated for all of them.
    chosen: RefCell<HashMap<Location, Value>>,
    writes: Writes<'a>,
}

impl<'a> Reads<'a> {
    /// Of a function, for a task that begins at this point.
    pub fn new(collected: &'a Collected, cfg: &'a Cfg, begin: Point) -> Self {
        Self {
            collected,
            cfg,
            begin,
            chosen: RefCell::default(),
            writes: Writes::new(collected, cfg),
        }
    }

    /// Replaces loads that follow the begin by reads at the begin, where those give the same and do not
    /// fault.
    pub fn at_begin<'e>(&self, expressions: impl Iterator<Item = &'e mut Expr>) {
        let expressions: Vec<&mut Expr> = expressions.collect();
        for expression in &expressions {
            expression.leaves(&mut |value| {
                if !self.cfg.is_defined_at(value, self.begin)
                    && let Some(location) = self.location(value, DEPTH)
                    && self
                        .writes
                        .is_the_same(self.begin, self.cfg.point(value), &location)
                {
                    self.chosen.borrow_mut().entry(location).or_insert(value);
                }
            });
        }
        if self.chosen.borrow().is_empty() {
            return;
        }
        for expression in expressions {
            *expression = expression.with_leaves(&mut |value| self.leaf(value));
        }
    }

    /// The value itself, or the read at the begin that gives the same.
    fn leaf(&self, value: Value) -> Expr {
        let location = self.location(value, DEPTH);
        let chosen = location.and_then(|location| Some((*self.chosen.borrow().get(&location)?, location)));
        match chosen {
            Some((load, location)) if self.is_known_as(value, &location) => self.read(load),
            _ => Expr::Leaf(value),
        }
    }

    /// Whether this load, before or after the begin, gives what a read at the begin does.
    fn is_known_as(&self, load: Value, location: &Location) -> bool {
        let point = self.cfg.point(load);
        match self.cfg.is_defined_at(load, self.begin) {
            true => self.writes.is_the_same(point, self.begin, location),
            false => self.writes.is_the_same(self.begin, point, location),
        }
    }

    /// A load, done at the begin.
    fn read(&self, load: Value) -> Expr {
        Expr::Repeat(load, Rc::new([self.repeated(load.operand(0))]))
    }

    /// An address, to be computed at the begin from a variable or a pointer.
    fn repeated(&self, address: Value) -> Expr {
        if !address.is_instruction() || self.cfg.is_defined_at(address, self.begin) {
            return Expr::Leaf(address);
        }
        if address.is(LLVMOpcode::LLVMLoad) {
            return self.read(address);
        }
        if !address.is(LLVMOpcode::LLVMGetElementPtr) {
            return Expr::Leaf(address);
        }
        let operands = address.operands().map(|operand| match operand.ty().is_pointer() {
            true => self.repeated(operand),
            false => Expr::of(operand).with_leaves(&mut |value| self.leaf(value)),
        });
        Expr::Repeat(address, operands.collect())
    }

    /// What a load reads, if a read of it at the begin does not fault where the program would not.
    fn location(&self, load: Value, depth: u32) -> Option<Location> {
        if !load.is(LLVMOpcode::LLVMLoad) || load.is_volatile_or_atomic() || depth == 0 {
            return None;
        }
        let address = load.operand(0);
        let (base, _) = memory::address(address);
        if !(base.is_variable() || base.is_argument() || base.is_instruction()) {
            return None;
        }
        if !self.cfg.is_defined_at(base, self.begin) {
            let pointer = self.location(base, depth - 1)?;
            if !self
                .writes
                .is_surely_the_same(self.begin, self.cfg.point(base), &pointer)
            {
                return None;
            }
        }
        let is_own = base.is_variable()
            || base.is(LLVMOpcode::LLVMAlloca)
            || (base.is_argument() && helpers::is_byval_parameter(base));
        let is_there = (is_own && self.is_readable(base, load)) || self.is_alive_until(base, load);
        (is_there && self.has_known_indices(address, depth))
            .then(|| Location::of(self.collected.module, address, load.ty()))
    }

    /// Whether all indices of an address are known at the begin, or are read there and surely unchanged.
    fn has_known_indices(&self, address: Value, depth: u32) -> bool {
        if !address.is(LLVMOpcode::LLVMGetElementPtr) || self.cfg.is_defined_at(address, self.begin) {
            return true;
        }
        let is_known = |value: Value| {
            self.cfg.is_defined_at(value, self.begin)
                || self.location(value, depth - 1).is_some_and(|location| {
                    self.writes
                        .is_surely_the_same(self.begin, self.cfg.point(value), &location)
                })
        };
        let mut known = true;
        for operand in address.operands().filter(|operand| !operand.ty().is_pointer()) {
            Expr::of(operand).leaves(&mut |value| known &= is_known(value));
        }
        known && self.has_known_indices(address.operand(0), depth)
    }

    /// Whether memory behind a pointer is there at the begin as it is at this load: control surely comes from
    /// the begin to the load, and nothing deletes the memory by this name on the way to the begin.
    fn is_alive_until(&self, object: Value, load: Value) -> bool {
        let mut deleted = object
            .users()
            .into_iter()
            .filter(|&user| memory::frees_host_memory(user));
        !deleted.any(|call| self.cfg.reaches(self.cfg.point(call), self.begin))
            && self.surely_comes(object, load)
    }

    /// Whether control surely comes from the begin to the load before the function returns. It may be that
    /// the process ends or something is thrown before only where the bytes are known to be there: else that
    /// may be how the program guards its read.
    fn surely_comes(&self, object: Value, load: Value) -> bool {
        let to = self.cfg.point(load);
        // The program has read it already.
        if self.cfg.dominates(to, self.begin) {
            return true;
        }
        let may_end = self.is_readable(object, load) || self.was_accessed(object, load);
        let returns = |block: usize, first: usize, end: usize| {
            let mut calls = self.cfg.block(block).instructions().take(end).skip(first);
            may_end || calls.all(|one| !one.is_call() || self.writes.calls.returns(one))
        };
        let first = |block: usize| match block == self.begin.block {
            true => self.begin.at,
            false => 0,
        };
        if self.begin.block == to.block && self.begin.at <= to.at {
            return returns(to.block, self.begin.at, to.at);
        }
        let mut seen = HashSet::from([to.block]);
        let mut queue = vec![self.begin.block];
        if !returns(to.block, 0, to.at) {
            return false;
        }
        while let Some(block) = queue.pop() {
            if !seen.insert(block) {
                continue;
            }
            let Some(last) = self.cfg.block(block).terminator() else {
                return false;
            };
            let next = self.cfg.successors(block);
            if next.is_empty() && (last.is(LLVMOpcode::LLVMRet) || !may_end) {
                return false;
            }
            if !returns(block, first(block), usize::MAX) {
                return false;
            }
            if last.is(LLVMOpcode::LLVMInvoke) && self.writes.calls.returns(last) {
                queue.push(self.cfg.number(last.normal_successor()));
            } else {
                queue.extend(next);
            }
        }
        true
    }

    /// Whether what a load reads, if at a constant way from the object, is part of what its pointer surely
    /// points to.
    fn is_readable(&self, object: Value, load: Value) -> bool {
        let bytes = helpers::dereferenceable_bytes(object);
        let range = Location::of(self.collected.module, load.operand(0), load.ty()).range();
        range.is_some_and(|range| range.start >= 0 && range.end as u64 <= bytes)
    }

    /// Whether the program has accessed these bytes through the same pointer on every way to the begin.
    fn was_accessed(&self, object: Value, load: Value) -> bool {
        let Some(wanted) = Location::of(self.collected.module, load.operand(0), load.ty()).range() else {
            return false;
        };
        let base = Base::of(self.collected.module, load.operand(0));
        let is_same_pointer = |pointer: Value| match &base {
            _ if pointer == object => true,
            Base::Kept(kept) if pointer.is(LLVMOpcode::LLVMLoad) => {
                Location::of(self.collected.module, pointer.operand(0), pointer.ty()) == **kept
                    && self
                        .writes
                        .is_surely_the_same(self.cfg.point(pointer), self.begin, kept)
            }
            _ => false,
        };
        let mut accesses = self.cfg.function.instructions().filter_map(|one| {
            let (address, ty) = match one.opcode()? {
                LLVMOpcode::LLVMLoad => (one.operand(0), one.ty()),
                LLVMOpcode::LLVMStore => (one.operand(1), one.operand(0).ty()),
                _ => return None,
            };
            let range = Location::of(self.collected.module, address, ty).range()?;
            (range.start <= wanted.start && wanted.end <= range.end).then_some((one, address))
        });
        accesses.any(|(one, address)| {
            self.cfg.dominates(self.cfg.point(one), self.begin) && is_same_pointer(memory::address(address).0)
        })
    }
}
