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

use crate::host::collect::{Callee, Collected, argument_at};
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::expr::Expr;
use crate::host::ir::helpers;
use crate::host::ir::memory;
use crate::host::ir::{Type, Value};
use crate::host::needs::effects;

/// How many pointers are followed from one to the next.
const DEPTH: u32 = 4;

/// Some bytes of memory, by the way the program names them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    base: Base,
    offset: i64,
    size: i64,
    /// The address, where the offset is known at run time only.
    index: Option<Value>,
}

impl Place {
    /// Whether the way to it leads by this base.
    fn is_reached_from(&self, base: &Base) -> bool {
        self.base == *base || matches!(&self.base, Base::Kept(place) if place.is_reached_from(base))
    }
}

/// What an address is counted from.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Base {
    /// An alloca, a global, or a pointer.
    Value(Value),
    /// The pointer that is kept in a place.
    Kept(Rc<Place>),
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
                    && let Some(place) = self.place(value, DEPTH)
                    && self.is_the_same(self.begin, self.cfg.point(value), &place)
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
        let place = self.place(value, DEPTH);
        let chosen = place.and_then(|place| Some((*self.chosen.borrow().get(&place)?, place)));
        match chosen {
            Some((load, place)) if self.is_known_as(value, &place) => self.read(load),
            _ => Expr::Leaf(value),
        }
    }

    /// Whether this load, before or after the begin, gives what a read at the begin does.
    fn is_known_as(&self, load: Value, place: &Place) -> bool {
        let point = self.cfg.point(load);
        match self.cfg.is_defined_at(load, self.begin) {
            true => self.is_the_same(point, self.begin, place),
            false => self.is_the_same(self.begin, point, place),
        }
    }

    /// A load, done at the begin.
    fn read(&self, load: Value) -> Expr {
        Expr::Repeat(load, Rc::new([self.repeated(load.operand(0))]))
    }

    /// An address, to be computed at the begin: a way from a variable or a pointer.
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

    /// What a load reads, if it is part of memory that is surely there at the begin: a variable, a structure that the
    /// function was given by value, or memory behind a pointer that is known by then and surely read later.
    fn place(&self, load: Value, depth: u32) -> Option<Place> {
        if !load.is(LLVMOpcode::LLVMLoad) || load.is_volatile_or_atomic() || depth == 0 {
            return None;
        }
        let address = load.operand(0);
        let (base, offset) = memory::address(address);
        let is_known = || self.cfg.is_defined_at(base, self.begin);
        let is_read_later = || self.is_alive_until(base, load);
        let is_there = if base.is_variable() || (base.is_argument() && helpers::is_byval_parameter(base)) {
            offset.is_some() || is_read_later()
        } else if base.is(LLVMOpcode::LLVMAlloca) {
            is_known() && (offset.is_some() || is_read_later())
        } else if base.is_argument() || (base.is_instruction() && is_known()) {
            is_read_later()
        } else {
            let kept = self.place(base, depth - 1)?;
            self.is_the_same(self.begin, self.cfg.point(base), &kept) && is_read_later()
        };
        is_there.then(|| self.named(address, load.ty()))
    }

    /// The place at an address, as the program names it.
    fn named(&self, address: Value, ty: Type) -> Place {
        self.named_within(address, ty, DEPTH)
    }

    fn named_within(&self, address: Value, ty: Type, depth: u32) -> Place {
        let (base, offset) = memory::address(address);
        let is_kept = base.is(LLVMOpcode::LLVMLoad) && depth > 0;
        Place {
            base: match is_kept {
                true => Base::Kept(Rc::new(self.named_within(base.operand(0), base.ty(), depth - 1))),
                false => Base::Value(base),
            },
            offset: offset.unwrap_or(0),
            size: helpers::type_size(self.collected.module, ty) as i64,
            index: offset.is_none().then_some(address),
        }
    }

    /// What an address is counted from.
    fn base(&self, address: Value) -> Base {
        self.named(address, address.ty()).base
    }

    /// Whether memory behind a pointer is there at the begin as it is at this load: whoever goes on from there comes to the
    /// load, and nothing deletes the memory by this name on the way to the begin.
    fn is_alive_until(&self, object: Value, load: Value) -> bool {
        let deletes = |user: &Value| {
            let name = user.callee().map(|callee| callee.name());
            name.is_some_and(|name| name.starts_with("_Zdl") || name.starts_with("_Zda") || name == "free")
        };
        let mut deleted = object.users().into_iter().filter(deletes);
        !deleted.any(|call| self.cfg.reaches(self.cfg.point(call), self.begin))
            && self.surely_comes(object, load)
    }

    /// Whether whoever goes on from the begin comes to the load before the function returns. The process may end before only
    /// where the object is there in any case: else that may be how the program guards its read.
    fn surely_comes(&self, object: Value, load: Value) -> bool {
        let to = self.cfg.point(load);
        if self.begin.block == to.block && self.begin.at <= to.at {
            return true;
        }
        let may_end = self.is_readable(object, load);
        let mut seen = HashSet::from([to.block]);
        let mut queue = vec![self.begin.block];
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
            // The runtime's functions throw nothing.
            let is_runtime = || matches!(self.collected.callee(last), Some(Callee::Runtime(_)));
            if last.is(LLVMOpcode::LLVMInvoke) && is_runtime() {
                queue.push(self.cfg.number(last.normal_successor()));
            } else {
                queue.extend(next);
            }
        }
        true
    }

    /// Whether what a load reads, if at a constant way from the object, is part of what its pointer surely points to.
    fn is_readable(&self, object: Value, load: Value) -> bool {
        let (_, offset) = memory::address(load.operand(0));
        let size = helpers::type_size(self.collected.module, load.ty());
        let end = offset.and_then(|offset| u64::try_from(offset).ok()?.checked_add(size));
        end.is_some_and(|end| end <= helpers::dereferenceable_bytes(object))
    }

    /// Whether nothing writes the place between two points, of which the first is on every way to the second.
    fn is_the_same(&self, from: Point, to: Point, place: &Place) -> bool {
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

    fn may_write(&self, instruction: Value, place: &Place) -> bool {
        match instruction.opcode() {
            Some(LLVMOpcode::LLVMStore) => {
                let written = self.named(instruction.operand(1), instruction.operand(0).ty());
                let overlaps = written.index.is_some()
                    || place.index.is_some()
                    || (written.offset < place.offset + place.size
                        && place.offset < written.offset + written.size);
                // What a method hands out may be in anything that it can reach.
                let is_handed_out = |call: Value| {
                    let mut given = call.arguments().filter(|argument| argument.ty().is_pointer());
                    given.any(|argument| place.is_reached_from(&self.base(argument)))
                };
                match written.base {
                    ref base if *base == place.base => overlaps,
                    Base::Value(call) => call.is_call() && is_handed_out(call),
                    Base::Kept(_) => false,
                }
            }
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => self.may_be_written_by(instruction, place),
            Some(LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg) => {
                self.base(instruction.operand(0)) == place.base
            }
            _ => false,
        }
    }

    fn may_be_written_by(&self, call: Value, place: &Place) -> bool {
        if call.is_marker() {
            return false;
        }
        let callee = self.collected.callee(call);
        let given = call
            .arguments()
            .enumerate()
            .filter(|(_, argument)| argument.ty().is_pointer() && self.base(*argument) == place.base);
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
        let Base::Value(global) = place.base else {
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
