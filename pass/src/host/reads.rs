//! Reads: sizes that the program reads from a variable after the task has begun, read at its begin already.
//!
//! A program keeps its sizes where functions have filled them, in globals and in variables whose address it gave away, and
//! reads them anew for every allocation. Between two reads stand calls of the runtime, of `printf`, stores to arrays. As
//! long as nothing in between writes the variable by its name, it is taken to be what it was: a function that is not
//! given its address, and does not store to it in this module, leaves it alone. Should another file do so nevertheless, the
//! task asks for what the old value says, and lazyrt has it grow: only the need is then not exact. The same holds for memory
//! behind a pointer, as long as the program surely comes to its own read of it: then the early one does not trap.
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use inkwell::llvm_sys::LLVMOpcode;

use super::cfg::{Cfg, Point};
use super::collect::{Callee, Collected, argument_at};
use super::effects;
use super::expr::Expr;
use super::helpers;
use super::ir::Value;
use super::prepare::is_marker;
use super::slots;

/// Some bytes of a named variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    /// An alloca, a global, or a pointer.
    base: Value,
    offset: i64,
    size: i64,
}

/// The reads of one function, for tasks that begin at one point.
pub struct Reads<'a> {
    collected: &'a Collected,
    cfg: &'a Cfg,
    /// Where the task begins.
    pub begin: Point,
    /// Each place that is read at the begin, with the load that stands for all of it.
    chosen: RefCell<HashMap<Place, Value>>,
    writers: RefCell<HashMap<Value, Rc<HashSet<Value>>>>,
}

impl<'a> Reads<'a> {
    /// Of a function, for a task that begins at this point.
    pub fn new(collected: &'a Collected, cfg: &'a Cfg, begin: Point) -> Self {
        Self {
            collected,
            cfg,
            begin,
            chosen: RefCell::default(),
            writers: RefCell::default(),
        }
    }

    /// The expressions with what is not there yet at the begin read at the begin, where that gives the same.
    pub fn at_begin<'e>(&self, expressions: impl Iterator<Item = &'e mut Expr>) {
        let expressions: Vec<&mut Expr> = expressions.collect();
        for expression in &expressions {
            expression.leaves(&mut |value| {
                if !self.cfg.is_defined_at(value, self.begin)
                    && let Some(place) = self.place(value)
                    && self.is_the_same(self.begin, self.cfg.point(value), place)
                {
                    self.chosen.borrow_mut().entry(place).or_insert(value);
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
        let place = self.place(value);
        let chosen = place.and_then(|place| Some((place, *self.chosen.borrow().get(&place)?)));
        match chosen {
            Some((place, load)) if self.is_known_as(value, place) => {
                Expr::Repeat(load, Rc::new([repeated(load.operand(0))]))
            }
            _ => Expr::Leaf(value),
        }
    }

    /// Whether this load, before or after the begin, gives what a read at the begin does.
    fn is_known_as(&self, load: Value, place: Place) -> bool {
        let point = self.cfg.point(load);
        match self.cfg.is_defined_at(load, self.begin) {
            true => self.is_the_same(point, self.begin, place),
            false => self.is_the_same(self.begin, point, place),
        }
    }

    /// What a load reads, if it is part of memory that is surely there at the begin: a variable, a structure that the
    /// function was given by value, or memory behind a pointer that is known by then and surely read later.
    fn place(&self, load: Value) -> Option<Place> {
        if !load.is(LLVMOpcode::LLVMLoad) || load.is_volatile_or_atomic() {
            return None;
        }
        let (base, offset) = slots::address(load.operand(0));
        let offset = offset?;
        let size = helpers::type_size(self.collected.module, load.ty()) as i64;
        let is_there = match base.opcode() {
            Some(LLVMOpcode::LLVMAlloca) => self.cfg.is_defined_at(base, self.begin),
            _ if base.is_variable() || (base.is_argument() && helpers::is_byval_parameter(base)) => true,
            _ => {
                let is_value = base.is_argument() || base.is_instruction();
                is_value && self.cfg.is_defined_at(base, self.begin) && self.is_alive_until(base, load)
            }
        };
        is_there.then_some(Place { base, offset, size })
    }

    /// Whether memory behind a pointer is there at the begin as it is at this load: whoever goes on from there without an end
    /// of the process comes to the load, and nothing deletes the memory by this name on the way to the begin.
    fn is_alive_until(&self, object: Value, load: Value) -> bool {
        let deletes = |user: &Value| {
            let name = user.callee().map(|callee| callee.name());
            name.is_some_and(|name| name.starts_with("_Zdl") || name.starts_with("_Zda") || name == "free")
        };
        let mut deleted = object.users().into_iter().filter(deletes);
        !deleted.any(|call| self.cfg.reaches(self.cfg.point(call), self.begin))
            && self.cfg.always_leads(self.begin, self.cfg.point(load))
    }

    /// Whether nothing writes the place between two points, of which the first is on every way to the second.
    fn is_the_same(&self, from: Point, to: Point, place: Place) -> bool {
        if !self.cfg.passes_before(from, to) {
            return false;
        }
        let writes = |block: usize, first: usize, end: usize| {
            let instructions = self.cfg.block(block).instructions();
            instructions
                .take(end)
                .skip(first)
                .any(|one| self.may_write(one, place))
        };
        if from.block == to.block {
            return !writes(to.block, from.at, to.at);
        }
        if writes(to.block, 0, to.at) {
            return false;
        }
        let mut seen = HashSet::new();
        let mut queue = self.cfg.predecessors(to.block);
        while let Some(block) = queue.pop() {
            if !seen.insert(block) {
                continue;
            }
            let first = if block == from.block { from.at } else { 0 };
            if writes(block, first, usize::MAX) {
                return false;
            }
            if block != from.block {
                queue.extend(self.cfg.predecessors(block));
            }
        }
        true
    }

    fn may_write(&self, instruction: Value, place: Place) -> bool {
        match instruction.opcode() {
            Some(LLVMOpcode::LLVMStore) => {
                let (base, offset) = slots::address(instruction.operand(1));
                let size = helpers::type_size(self.collected.module, instruction.operand(0).ty()) as i64;
                base == place.base
                    && offset.is_none_or(|at| at < place.offset + place.size && place.offset < at + size)
            }
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => self.may_be_written_by(instruction, place),
            Some(LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg) => {
                slots::address(instruction.operand(0)).0 == place.base
            }
            _ => false,
        }
    }

    fn may_be_written_by(&self, call: Value, place: Place) -> bool {
        if is_marker(call) {
            return false;
        }
        let callee = self.collected.callee(call);
        let given = call
            .arguments()
            .enumerate()
            .filter(|(_, argument)| argument.ty().is_pointer() && slots::address(*argument).0 == place.base);
        let mut written = given.filter(|&(at, _)| match callee {
            Some(Callee::Runtime(entry)) => {
                let parameter = (0..entry.params.len()).find(|&one| argument_at(entry, one) == at as u32);
                !parameter.is_some_and(|one| entry.params[one].ty.starts_with("const "))
            }
            _ => !effects::only_reads(call, at as u32),
        });
        if written.next().is_some() {
            return true;
        }
        let is_global = place.base.is_variable();
        match callee {
            Some(Callee::Other(function)) if is_global && !function.is_declaration() => {
                self.stores(function, place.base)
            }
            Some(Callee::Unknown) => is_global && !self.writers(place.base).is_empty(),
            _ => false,
        }
    }

    /// Whether a function, or one that it calls in this module, may store to a global.
    fn stores(&self, function: Value, global: Value) -> bool {
        let writers = self.writers(global);
        let mut seen = HashSet::new();
        let mut queue = vec![function];
        while let Some(one) = queue.pop() {
            if writers.is_empty() || !seen.insert(one) {
                continue;
            }
            if writers.contains(&one) {
                return true;
            }
            let called = one.instructions().filter_map(|call| call.callee());
            queue.extend(called.filter(|callee| !callee.is_declaration()));
        }
        false
    }

    /// The functions that do more with a global than to read it.
    fn writers(&self, global: Value) -> Rc<HashSet<Value>> {
        if let Some(known) = self.writers.borrow().get(&global) {
            return known.clone();
        }
        let mut found = HashSet::new();
        let mut addresses = vec![global];
        while let Some(address) = addresses.pop() {
            for user in address.users() {
                let goes_on = !user.is_instruction() || user.is(LLVMOpcode::LLVMGetElementPtr);
                if goes_on && !user.is_global() {
                    addresses.push(user);
                } else if !goes_on && !user.is(LLVMOpcode::LLVMLoad) {
                    found.insert(user.block().function());
                }
            }
        }
        let found = Rc::new(found);
        self.writers.borrow_mut().insert(global, found.clone());
        found
    }
}

/// An address a constant way from a variable, to be computed elsewhere.
fn repeated(address: Value) -> Expr {
    if !address.is(LLVMOpcode::LLVMGetElementPtr) || !address.is_instruction() {
        return Expr::Leaf(address);
    }
    let operands = address.operands().map(|operand| match operand.ty().is_pointer() {
        true => repeated(operand),
        false => Expr::of(operand),
    });
    Expr::Repeat(address, operands.collect())
}
