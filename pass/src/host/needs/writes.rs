//! Writes: whether memory is the same at two points of a function.
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use inkwell::llvm_sys::LLVMOpcode;

use mgb_catalogue::Role;

use crate::host::collect::{Callee, Collected, argument_at};
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::{Value, effects, memory};
use crate::host::needs::calls::ModuleCalls;
use crate::host::needs::locations::{Base, Location};

/// The writes of one function.
pub struct Writes<'a> {
    collected: &'a Collected,
    cfg: &'a Cfg,
    /// What is known of the calls.
    pub calls: ModuleCalls<'a>,
    writers: RefCell<HashMap<Value, Rc<HashSet<Value>>>>,
}

impl<'a> Writes<'a> {
    /// Of a function.
    pub fn new(collected: &'a Collected, cfg: &'a Cfg) -> Self {
        Self {
            collected,
            cfg,
            calls: ModuleCalls::new(collected),
            writers: RefCell::default(),
        }
    }

    fn base_of(&self, address: Value) -> Base {
        Base::of(self.collected.module, address)
    }

    /// Whether a pointer or an index in memory is the same at both points, whatever functions of other files
    /// do.
    pub fn is_surely_the_same(&self, from: Point, to: Point, location: &Location) -> bool {
        self.is_untouched(from, to, |one| {
            self.may_write(one, location) || self.may_write_unseen(one, location)
        })
    }

    /// Whether an instruction may write a location other than by its name.
    fn may_write_unseen(&self, one: Value, location: &Location) -> bool {
        let is_own = |base: &Base| match base {
            Base::Value(value) => value.is(LLVMOpcode::LLVMAlloca) || memory::is_private(*value),
            Base::Kept(_) => false,
        };
        match one.opcode() {
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                !is_own(&location.base) && !self.calls.keeps_pointers(one)
            }
            Some(LLVMOpcode::LLVMStore) => {
                let is_pointer = one.operand(0).ty().is_pointer();
                let through = self.base_of(one.operand(1));
                let is_variable = matches!(through, Base::Value(value)
                    if value.is(LLVMOpcode::LLVMAlloca) || value.is_variable());
                is_pointer && !is_own(&location.base) && !is_variable && through != location.base
            }
            _ => false,
        }
    }

    /// Whether nothing writes the location by its name between two points; every path to the second passes
    /// the first.
    pub fn is_the_same(&self, from: Point, to: Point, location: &Location) -> bool {
        self.is_untouched(from, to, |one| self.may_write(one, location))
    }

    /// Whether no instruction between two points may write; every path to the second point passes the first.
    fn is_untouched(&self, from: Point, to: Point, may_write: impl Fn(Value) -> bool) -> bool {
        if !self.cfg.passes_before(from, to) {
            return false;
        }
        let writes = |block: usize, first: usize, end: usize| {
            let instructions = self.cfg.block(block).instructions();
            instructions.take(end).skip(first).any(&may_write)
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

    fn may_write(&self, instruction: Value, location: &Location) -> bool {
        match instruction.opcode() {
            Some(LLVMOpcode::LLVMStore) => {
                let written = Location::of(
                    self.collected.module,
                    instruction.operand(1),
                    instruction.operand(0).ty(),
                );
                let overlaps = written.overlaps(location);
                // A reference that a method returns may be into anything that the method can reach.
                let is_handed_out = |call: Value| {
                    let mut given = call.arguments().filter(|argument| argument.ty().is_pointer());
                    given.any(|argument| location.is_reached_from(&self.base_of(argument)))
                };
                match written.base {
                    ref base if *base == location.base => overlaps,
                    Base::Value(call) => call.is_call() && is_handed_out(call),
                    Base::Kept(_) => false,
                }
            }
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                self.may_be_written_by(instruction, location)
            }
            Some(LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg) => {
                self.base_of(instruction.operand(0)) == location.base
            }
            _ => false,
        }
    }

    fn may_be_written_by(&self, call: Value, location: &Location) -> bool {
        if call.is_marker() {
            return false;
        }
        let callee = self.collected.callee(call);
        let given = call
            .arguments()
            .enumerate()
            .filter(|(_, argument)| argument.ty().is_pointer() && self.base_of(*argument) == location.base);
        let mut written = given.filter(|&(at, argument)| match callee {
            Some(Callee::Runtime(entry)) => {
                let parameter = (0..entry.params.len()).find(|&one| argument_at(entry, one) == at as u32);
                match parameter.map(|one| &entry.params[one]) {
                    // An allocation writes the pointer, and nothing beside it in its structure.
                    Some(one) if one.role == Role::DevicePointerOut => {
                        let module = self.collected.module;
                        Location::of(module, argument, argument.ty()).overlaps(location)
                    }
                    Some(one) => !one.ty.starts_with("const "),
                    None => true,
                }
            }
            _ => !effects::only_reads(call, at as u32),
        });
        if written.next().is_some() {
            return true;
        }
        let Base::Value(global) = location.base else {
            return false;
        };
        match callee.filter(|_| global.is_variable()) {
            Some(Callee::Other(function)) if !function.is_declaration() => self.stores(function, global),
            Some(Callee::Unknown) => !self.writers(global).is_empty(),
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
