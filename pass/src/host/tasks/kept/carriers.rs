//! Carriers: the variables and values of a function that may hold the addresses of a task's objects, and what
//! each instruction does to them.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};
use mgb_catalogue::Class;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::Value;
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::helpers;
use crate::host::objects::launches::KernelLaunch;
use crate::host::objects::slots::{self, POINTER, SlotAccess, VariableBytes};
use crate::host::objects::{Objects, PointerStore};

/// What happens to a carrier, given by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CarrierEvent {
    /// What it holds may be used.
    Read(usize),
    /// What it held is lost.
    Overwrite(usize),
    /// It may hold the address of an object from here on.
    Fill(usize),
    /// It holds no address of an object that is there.
    Empty(usize),
}

/// What an instruction does with an address.
enum AddressUse {
    /// Nothing that touches its object.
    None,
    /// It is another address in the same object, or one of several.
    Derives,
    /// The object may be used.
    Object,
}

/// The carriers of a task.
pub struct Carriers<'a> {
    collected: &'a Collected,
    cfg: &'a Cfg,
    objects: &'a Objects,
    /// Parts of variables; none is all of the variable that is not known by its offset.
    cells: HashMap<(Value, Option<i64>), usize>,
    values: HashMap<Value, usize>,
    /// By block, in order; those of one instruction that read come first.
    pub events: Vec<Vec<(usize, CarrierEvent)>>,
    /// By block: what may be used on the way out of it, by the phis behind.
    pub used_behind: Vec<Vec<usize>>,
    /// A cell that is null on an edge between two blocks.
    pub null_on: Vec<(usize, usize, usize)>,
    /// Those that may hold an address as the function is entered, and values, of which nothing else is known.
    pub full_at_first: Vec<usize>,
}

impl<'a> Carriers<'a> {
    /// Those of the task with these ops.
    pub fn new(
        collected: &'a Collected,
        cfg: &'a Cfg,
        launches: &[KernelLaunch],
        objects: &'a Objects,
        ops: &[usize],
    ) -> Self {
        let mut this = Self {
            collected,
            cfg,
            objects,
            cells: HashMap::new(),
            values: HashMap::new(),
            events: vec![Vec::new(); cfg.len()],
            used_behind: vec![Vec::new(); cfg.len()],
            null_on: Vec::new(),
            full_at_first: Vec::new(),
        };
        let nodes = ops.iter().flat_map(|&number| &objects.ops[number].nodes);
        let classes: HashSet<usize> = nodes.map(|&node| objects.class(node)).collect();
        let (mut variables, mut values) = (HashSet::new(), Vec::new());
        for (node, number) in objects.nodes() {
            match node {
                _ if !classes.contains(&objects.class(number)) => {}
                PointerStore::Value(value) if value.is_instruction() => values.push(value),
                PointerStore::Value(_) => {}
                PointerStore::Slot(variable, _) | PointerStore::Any(variable) => {
                    variables.insert(variable);
                }
            }
        }
        for variable in variables {
            this.add_variable(variable, &slots::accesses(collected, cfg, launches, variable));
        }
        this.add_frees(ops);
        for value in values {
            this.add_value(value);
        }
        this.find_null_edges();
        for events in &mut this.events {
            events.sort_by_key(|(at, event)| (*at, !matches!(event, CarrierEvent::Read(_))));
        }
        this
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cells.len() + self.values.len()
    }

    fn event(&mut self, at: Value, event: CarrierEvent) {
        let Point { block, at } = self.cfg.point(at);
        self.events[block].push((at, event));
    }

    fn add_variable(&mut self, variable: Value, accesses: &[SlotAccess]) {
        let mut parts: Vec<Option<i64>> = accesses
            .iter()
            .filter_map(part_of)
            .map(VariableBytes::exact)
            .collect();
        parts.push(None);
        parts.sort_unstable();
        parts.dedup();
        let mut cells: Vec<(Option<i64>, usize)> = Vec::new();
        for part in parts {
            let number = self.len();
            self.cells.insert((variable, part), number);
            cells.push((part, number));
        }
        if !variable.is(LLVMOpcode::LLVMAlloca) {
            self.full_at_first.extend(cells.iter().map(|&(_, cell)| cell));
        }
        let may_be = |part: VariableBytes| {
            let here = move |offset: Option<i64>| offset.map_or(part.exact().is_none(), |at| part.may_be(at));
            let here = cells.iter().filter(move |(offset, _)| here(*offset));
            here.map(|&(_, cell)| cell).collect::<Vec<usize>>()
        };
        let all: Vec<usize> = cells.iter().map(|&(_, cell)| cell).collect();
        for access in accesses {
            match *access {
                SlotAccess::Load { load, part } if self.is_useful(load) => {
                    may_be(part)
                        .into_iter()
                        .for_each(|cell| self.event(load, CarrierEvent::Read(cell)));
                }
                SlotAccess::Load { .. } => {}
                SlotAccess::Store { store, part } => {
                    let empties = store.operand(0).is_null_or_undef();
                    self.written(store, part, &may_be(part), empties);
                }
                SlotAccess::Allocation { call, part } => self.written(call, part, &may_be(part), false),
                SlotAccess::Argument { call, .. }
                | SlotAccess::Copy {
                    call, into: false, ..
                } => {
                    all.iter()
                        .for_each(|&cell| self.event(call, CarrierEvent::Read(cell)));
                }
                SlotAccess::Copy { call, into: true, .. } | SlotAccess::Fill { call } => {
                    let whole = self.covers(call, variable);
                    for &cell in &all {
                        if whole {
                            self.event(call, CarrierEvent::Overwrite(cell));
                        }
                        self.event(call, CarrierEvent::Fill(cell));
                    }
                }
                SlotAccess::Called { call, part, bytes } => {
                    for &(offset, cell) in &cells {
                        if offset.is_none_or(|at| part.overlaps(bytes, VariableBytes::at(at), POINTER)) {
                            self.event(call, CarrierEvent::Read(cell));
                            self.event(call, CarrierEvent::Fill(cell));
                        }
                    }
                }
                // The task is lazy then.
                SlotAccess::Escape(_) => {}
            }
        }
        for user in variable.users().into_iter().filter(|user| user.is_call()) {
            if self.clears(user, variable) {
                for &cell in &all {
                    self.event(user, CarrierEvent::Overwrite(cell));
                    self.event(user, CarrierEvent::Empty(cell));
                }
            }
        }
    }

    fn written(&mut self, at: Value, part: VariableBytes, cells: &[usize], empties: bool) {
        let only = part.exact().is_some();
        for &cell in cells {
            if only {
                self.event(at, CarrierEvent::Overwrite(cell));
            }
            match (empties, only) {
                (true, true) => self.event(at, CarrierEvent::Empty(cell)),
                (true, false) => {}
                (false, _) => self.event(at, CarrierEvent::Fill(cell)),
            }
        }
    }

    /// Whether a call writes all bytes of a variable.
    fn covers(&self, call: Value, variable: Value) -> bool {
        let is_whole = || {
            let size = helpers::type_size(self.collected.module, variable.allocated_type());
            call.operand(2).constant().is_some_and(|bytes| bytes >= size)
        };
        variable.is(LLVMOpcode::LLVMAlloca)
            && variable.operand(0).constant() == Some(1)
            && call.operand(0) == variable
            && is_whole()
    }

    /// Whether a call leaves no address in a variable: its life begins or ends, or it is set to zero.
    fn clears(&self, call: Value, variable: Value) -> bool {
        let name = call.callee().map(Value::name).unwrap_or_default();
        let zeroes = || name.starts_with("llvm.memset.") && call.operand(1).is_null();
        let is_life = name.starts_with("llvm.lifetime.") && variable.is(LLVMOpcode::LLVMAlloca);
        is_life || (zeroes() && self.covers(call, variable))
    }

    /// What a free has just read from a cell is gone.
    fn add_frees(&mut self, ops: &[usize]) {
        for &number in ops {
            let call = self.objects.ops[number].call;
            if !self.is_free(call) {
                continue;
            }
            if let Some(cell) = self.loaded_cell(call.operand(0), self.cfg.point(call)) {
                self.event(call, CarrierEvent::Empty(cell));
            }
        }
    }

    /// The cell that a value was read from, if that still holds it at `until`, in the same block.
    fn loaded_cell(&self, load: Value, until: Point) -> Option<usize> {
        if !load.is(LLVMOpcode::LLVMLoad) {
            return None;
        }
        let (variable, offset, stride, _) = helpers::indexed_address(self.collected.module, load.operand(0));
        let cell = *self
            .cells
            .get(&(variable, Some(offset).filter(|_| stride == 0)))?;
        let read = self.cfg.point(load);
        let is_between = |at: usize| (read.at..until.at).contains(&at);
        let changes = |event: &CarrierEvent| matches!(*event, CarrierEvent::Fill(one) | CarrierEvent::Overwrite(one) if one == cell);
        let is_changed = self.events[read.block]
            .iter()
            .any(|(at, event)| is_between(*at) && changes(event));
        (stride == 0 && read.block == until.block && !is_changed).then_some(cell)
    }

    fn add_value(&mut self, value: Value) {
        if !self.is_useful(value) {
            return;
        }
        let number = self.len();
        self.values.insert(value, number);
        self.full_at_first.push(number);
        self.event(value, CarrierEvent::Overwrite(number));
        for user in value.users() {
            if !self.is_use(user) {
                continue;
            }
            if user.is(LLVMOpcode::LLVMPHI) {
                let from = user.incoming_from().filter(|(incoming, _)| *incoming == value);
                for (_, block) in from {
                    self.used_behind[self.cfg.number(block)].push(number);
                }
            } else {
                self.event(user, CarrierEvent::Read(number));
            }
        }
    }

    /// Whether something is done with the object at an address: comparing and freeing it is no use.
    fn is_useful(&self, value: Value) -> bool {
        let mut seen = HashSet::from([value]);
        let mut queue = vec![value];
        while let Some(value) = queue.pop() {
            for user in value.users() {
                match self.use_of(user) {
                    AddressUse::None => {}
                    AddressUse::Derives if seen.insert(user) => queue.push(user),
                    AddressUse::Derives => {}
                    AddressUse::Object => return true,
                }
            }
        }
        false
    }

    fn is_use(&self, user: Value) -> bool {
        match self.use_of(user) {
            AddressUse::None => false,
            AddressUse::Derives => self.is_useful(user),
            AddressUse::Object => true,
        }
    }

    fn use_of(&self, user: Value) -> AddressUse {
        match user.opcode() {
            Some(LLVMOpcode::LLVMICmp) => AddressUse::None,
            Some(
                LLVMOpcode::LLVMGetElementPtr
                | LLVMOpcode::LLVMBitCast
                | LLVMOpcode::LLVMAddrSpaceCast
                | LLVMOpcode::LLVMFreeze
                | LLVMOpcode::LLVMPHI
                | LLVMOpcode::LLVMSelect,
            ) => AddressUse::Derives,
            _ if user.is_marker() || self.is_free(user) => AddressUse::None,
            _ => AddressUse::Object,
        }
    }

    fn is_free(&self, call: Value) -> bool {
        match self.collected.callee(call) {
            Some(Callee::Runtime(entry)) => entry.class == Class::Free,
            _ => false,
        }
    }

    /// The edges that `if (pointer)` takes where the pointer is null.
    fn find_null_edges(&mut self) {
        for from in 0..self.cfg.len() {
            let block = self.cfg.block(from);
            let (Some(branch), successors) = (block.terminator(), block.successors()) else {
                continue;
            };
            if !branch.is(LLVMOpcode::LLVMBr) || successors.len() != 2 || successors[0] == successors[1] {
                continue;
            }
            let test = branch.operand(0);
            if !test.is(LLVMOpcode::LLVMICmp) || !test.operand(1).is_null() {
                continue;
            }
            let to = match test.predicate() {
                LLVMIntPredicate::LLVMIntEQ => successors[0],
                LLVMIntPredicate::LLVMIntNE => successors[1],
                _ => continue,
            };
            if let Some(cell) = self.loaded_cell(test.operand(0), self.cfg.point(branch)) {
                self.null_on.push((from, self.cfg.number(to), cell));
            }
        }
    }
}

/// Which part of its variable an access moves a pointer from or to.
fn part_of(access: &SlotAccess) -> Option<VariableBytes> {
    match *access {
        SlotAccess::Load { load, part } => load.ty().is_pointer().then_some(part),
        SlotAccess::Store { store, part } => store.operand(0).ty().is_pointer().then_some(part),
        SlotAccess::Allocation { part, .. } => Some(part),
        _ => None,
    }
}
