//! The search: from the pointers that ops are given to all that they may be, come from and go to.
use std::collections::{HashMap, HashSet, VecDeque};

use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::report::ReasonCode;
use mgb_catalogue::{Class, Role, RuntimeFunction};
use petgraph::unionfind::UnionFind;

use crate::assume::Proof;
use crate::host::collect::variables::Variables;
use crate::host::collect::{Callee, Collected, arguments_with};
use crate::host::ir::Value;
use crate::host::ir::cfg::Cfg;
use crate::host::ir::memory;
use crate::host::objects::classes::{Objects, PointerStore};
use crate::host::objects::launches::KernelLaunch;
use crate::host::objects::numbers::{self, Numbers};
use crate::host::objects::ops::{self, GpuOp, OpKind};
use crate::host::objects::overwritten;
use crate::host::objects::slots::{self, POINTER, SlotAccess, VariableBytes};
use crate::host::reason::Why;

/// The classes of a prepared function.
pub fn find(collected: &Collected, variables: &Variables, cfg: &Cfg, launches: &[KernelLaunch]) -> Objects {
    let objects = Objects {
        ops: Vec::new(),
        obstacles: Vec::new(),
        classes: UnionFind::new(0),
        numbers: HashMap::new(),
        stores: HashMap::new(),
    };
    let mut search = ObjectSearch {
        collected,
        variables,
        cfg,
        launches,
        objects,
        queue: VecDeque::new(),
        differences: Vec::new(),
        scanned: HashSet::new(),
    };
    search.start();
    while let Some(node) = search.queue.pop_front() {
        match node {
            PointerStore::Value(value) => search.follow_value(value),
            PointerStore::Slot(variable, offset) => search.follow_slot(variable, offset),
            PointerStore::Any(variable) => search.follow_any(variable),
        }
    }
    search.check_differences();
    search.name_all_pointers();
    search.objects
}

/// The search in progress.
pub(super) struct ObjectSearch<'a> {
    pub(super) collected: &'a Collected,
    variables: &'a Variables,
    cfg: &'a Cfg,
    launches: &'a [KernelLaunch],
    objects: Objects,
    queue: VecDeque<PointerStore>,
    /// The ways from one pointer to another that go on as numbers.
    differences: Vec<Value>,
    pub(super) scanned: HashSet<PointerStore>,
}

impl ObjectSearch<'_> {
    /// What stands for the pointer at an address, if that is in memory all of whose uses are seen here; else
    /// what the address is counted from.
    pub(super) fn kept_at(&self, address: Value) -> Result<PointerStore, Value> {
        match memory::address(address) {
            (base, _) if !memory::is_own(self.cfg, base) => Err(base),
            (variable, Some(offset)) => Ok(PointerStore::Slot(variable, offset)),
            (variable, None) => Ok(PointerStore::Any(variable)),
        }
    }

    /// Starts from the pointers of every op.
    fn start(&mut self) {
        for instruction in self.cfg.function.instructions() {
            if !self.cfg.is_reachable(self.cfg.point(instruction).block) {
                continue;
            }
            let op = match self.collected.callee(instruction) {
                Some(Callee::Stub(_)) => self.launch(instruction),
                Some(Callee::Runtime(entry)) => match entry.class {
                    Class::Launch => self.launch(instruction),
                    Class::Alloc => self.allocation(instruction, entry),
                    Class::Free | Class::Copy | Class::Set => self.touching(instruction, entry),
                    Class::Symbol => {
                        let variable = self.variables.copied(self.collected, instruction);
                        Some(ops::symbol(instruction, entry, variable))
                    }
                    _ => None,
                },
                _ => None,
            };
            self.objects.ops.extend(op);
        }
    }

    fn launch(&mut self, call: Value) -> Option<GpuOp> {
        let number = self.launches.iter().position(|launch| launch.call == call)?;
        let launch = &self.launches[number];
        let mut nodes: Vec<usize> = launch
            .pointers
            .iter()
            .filter(|pointer| !pointer.is_null_or_undef())
            .map(|&one| self.value(one))
            .collect();
        for &variable in &launch.storage {
            let ty = variable.allocated_type();
            if ty.is_pointer() {
                nodes.push(self.node(PointerStore::Slot(variable, 0)));
            } else if ty.holds_pointer() {
                nodes.push(self.node(PointerStore::Any(variable)));
            }
        }
        let mut obstacles = launch.obstacles.clone();
        if !nodes.is_empty() {
            obstacles.extend(launch.variables.published.iter().cloned());
        }
        Some(GpuOp {
            call,
            kind: OpKind::Launch(number),
            name: "launch",
            nodes,
            variables: launch.variables.changing.clone(),
            obstacles,
        })
    }

    fn allocation(&mut self, call: Value, entry: &'static RuntimeFunction) -> Option<GpuOp> {
        let target = arguments_with(call, entry, Role::DevicePointerOut)
            .first()
            .copied()?;
        let mut op = ops::allocation(call, entry);
        match self.kept_at(target) {
            Ok(node) => op.nodes.push(self.node(node)),
            Err(base) => {
                let text = format!("{} writes the address to {}", entry.name, self.describe(base));
                op.obstacles
                    .push(Why::new(ReasonCode::AddressEscapes, text, call));
            }
        }
        Some(op)
    }

    fn touching(&mut self, call: Value, entry: &'static RuntimeFunction) -> Option<GpuOp> {
        let (mut op, pointers) = ops::touching(call, entry);
        for pointer in pointers {
            if !pointer.is_null_or_undef() {
                op.nodes.push(self.value(pointer));
            }
        }
        Some(op)
    }

    /// Notes that a pointer is converted to an integer of which only these differences are left.
    pub(super) fn differs(&mut self, differences: Vec<Value>) {
        self.differences.extend(differences);
    }

    /// The way from one object to another leads to a kernel that is given only the other one.
    fn check_differences(&mut self) {
        if Proof::Numbers.is_assumed() {
            return;
        }
        for difference in std::mem::take(&mut self.differences) {
            let pointers = [0, 1].map(|at| difference.operand(at).operand(0));
            let numbers = pointers.map(|one| self.objects.number(PointerStore::Value(one)));
            let classes = numbers.map(|number| number.map(|number| self.objects.class(number)));
            if classes[0] == classes[1] {
                continue;
            }
            for number in numbers.into_iter().flatten() {
                let text = "the distance between pointers to two objects is computed";
                let why = Why::new(ReasonCode::AddressEscapes, text, difference);
                self.objects.obstacles.push((number, why));
            }
        }
    }

    /// A copy is given two pointers, whatever it says of their direction: those that turned out to
    /// be into device memory are the op's too.
    fn name_all_pointers(&mut self) {
        for op in &mut self.objects.ops {
            let Some(entry) = self
                .collected
                .entry(op.call)
                .filter(|_| matches!(op.kind, OpKind::Touch))
            else {
                continue;
            };
            for pointer in arguments_with(op.call, entry, Role::DevicePointer) {
                let node = self.objects.numbers.get(&PointerStore::Value(pointer)).copied();
                op.nodes.extend(node.filter(|node| !op.nodes.contains(node)));
            }
        }
    }

    fn value(&mut self, value: Value) -> usize {
        self.node(PointerStore::Value(value))
    }

    fn node(&mut self, node: PointerStore) -> usize {
        if let Some(&number) = self.objects.numbers.get(&node) {
            return number;
        }
        let number = self.objects.classes.new_set();
        self.objects.numbers.insert(node, number);
        self.queue.push_back(node);
        number
    }

    pub(super) fn same(&mut self, a: PointerStore, b: PointerStore) {
        let (a, b) = (self.node(a), self.node(b));
        self.objects.classes.union(a, b);
    }

    /// `value` may be what `node` holds, unless it is null.
    pub(super) fn may_be(&mut self, node: PointerStore, value: Value) {
        if !value.is_null_or_undef() {
            self.same(node, PointerStore::Value(value));
        }
    }

    pub(super) fn obstacle(&mut self, node: PointerStore, why: Why) {
        let number = self.node(node);
        self.objects.obstacles.push((number, why));
    }

    fn follow_slot(&mut self, variable: Value, slot: i64) {
        let node = PointerStore::Slot(variable, slot);
        let number = self.node(node);
        let accesses = slots::accesses(self.collected, self.cfg, self.launches, variable);
        let is_gone = |copy: Value, slot: i64| {
            overwritten::is_overwritten(self.collected.module, self.cfg, &accesses, copy, slot)
        };
        self.becomes_number(node, variable, VariableBytes::at(slot));
        for access in &accesses {
            match *access {
                SlotAccess::Load { load, part } if part.may_be(slot) && load.ty().is_pointer() => {
                    self.same(node, kept(variable, part));
                    self.same(kept(variable, part), PointerStore::Value(load));
                }
                SlotAccess::Store { store, part }
                    if part.may_be(slot) && store.operand(0).ty().is_pointer() =>
                {
                    self.objects.stores.entry(number).or_default().push(store);
                    self.same(node, kept(variable, part));
                    self.may_be(node, store.operand(0));
                }
                SlotAccess::Load { load: one, part } | SlotAccess::Store { store: one, part } => {
                    if slots::overlaps(self.collected.module, moved(one), part, VariableBytes::at(slot)) {
                        self.obstacle(node, numbers::read_as_bytes(one));
                    }
                }
                // The allocation itself is an op; nothing more to note.
                SlotAccess::Allocation { part, .. } if part.may_be(slot) => {
                    self.same(node, kept(variable, part));
                }
                SlotAccess::Allocation { .. } => {}
                SlotAccess::Argument { ty, .. } if ty.is_pointer() => {}
                // The structure may be passed on in part: which part is not analysed, so it may be any.
                SlotAccess::Argument { .. } => self.same(node, PointerStore::Any(variable)),
                SlotAccess::Copy { call, into: true, .. } => {
                    self.objects.stores.entry(number).or_default().push(call);
                    if !is_gone(call, slot) {
                        self.same(node, PointerStore::Any(variable));
                    }
                }
                SlotAccess::Copy { .. } => self.same(node, PointerStore::Any(variable)),
                SlotAccess::Fill { call } => {
                    self.objects.stores.entry(number).or_default().push(call);
                    if !is_gone(call, slot) {
                        self.obstacle(node, slots::copied(call));
                    }
                }
                SlotAccess::Called { call, part, bytes } => {
                    if part.overlaps(bytes, VariableBytes::at(slot), POINTER) {
                        self.given_to_callee(node, call);
                    }
                }
                SlotAccess::Escape(ref why) => self.obstacle(node, why.clone()),
            }
        }
    }

    /// Follows the pointers in a variable at offsets that are known at run time only, or that are copied with
    /// all of it.
    fn follow_any(&mut self, variable: Value) {
        let node = PointerStore::Any(variable);
        let number = self.node(node);
        let accesses = slots::accesses(self.collected, self.cfg, self.launches, variable);
        // A copy of which no pointer is left when the variable is next read brings none.
        let gone: HashSet<Value> = overwritten::copies(self.collected.module, self.cfg, variable, &accesses);
        let is_whole = |one: &SlotAccess| match one {
            SlotAccess::Argument { .. } => true,
            SlotAccess::Copy { call, .. } => !gone.contains(call),
            _ => false,
        };
        let whole = accesses.iter().any(is_whole);
        let kept: Vec<VariableBytes> = accesses.iter().filter_map(pointer_at).collect();
        let is_reached = |slot: i64| {
            whole
                || kept
                    .iter()
                    .any(|part| part.exact().is_none() && part.may_be(slot))
        };
        for &part in kept.iter().filter(|part| part.exact().is_none()) {
            self.becomes_number(node, variable, part);
        }
        for access in accesses {
            if let Some(slot) = pointer_at(&access).and_then(VariableBytes::exact) {
                if is_reached(slot) {
                    self.same(node, PointerStore::Slot(variable, slot));
                }
                continue;
            }
            match access {
                SlotAccess::Load { load, .. } if load.ty().is_pointer() => {
                    self.same(node, PointerStore::Value(load))
                }
                SlotAccess::Store { store, .. } if store.operand(0).ty().is_pointer() => {
                    self.objects.stores.entry(number).or_default().push(store);
                    self.may_be(node, store.operand(0));
                }
                SlotAccess::Load { load: one, part } | SlotAccess::Store { store: one, part } => {
                    let mut pointers = kept.iter().filter(|at| at.exact().is_none());
                    if pointers.any(|&at| slots::overlaps(self.collected.module, moved(one), part, at)) {
                        self.obstacle(node, numbers::read_as_bytes(one));
                    }
                }
                SlotAccess::Copy {
                    call, other, into, ..
                } => {
                    if into {
                        self.objects.stores.entry(number).or_default().push(call);
                    }
                    if !gone.contains(&call) {
                        self.same(node, PointerStore::Any(other));
                    }
                }
                SlotAccess::Fill { call } => {
                    self.objects.stores.entry(number).or_default().push(call);
                    if !gone.contains(&call) {
                        self.obstacle(node, slots::copied(call));
                    }
                }
                SlotAccess::Called { call, .. } => self.given_to_callee(node, call),
                SlotAccess::Escape(why) => self.obstacle(node, why),
                SlotAccess::Allocation { .. } | SlotAccess::Argument { .. } => {}
            }
        }
    }

    /// Notes with a pointer in a variable where its bytes become a number.
    fn becomes_number(&mut self, node: PointerStore, variable: Value, pointer: VariableBytes) {
        if Proof::Numbers.is_assumed() {
            return;
        }
        let why = Numbers::new(self.collected, self.cfg, self.launches).find(variable, pointer);
        if let Some(why) = why {
            self.obstacle(node, why);
        }
    }

    fn given_to_callee(&mut self, node: PointerStore, call: Value) {
        let function = call.callee().expect("what is summarised is called by its name");
        self.obstacle(node, slots::given_to(function, call));
    }
}

/// The value that a load reads or a store writes.
fn moved(instruction: Value) -> Value {
    match instruction.is(LLVMOpcode::LLVMStore) {
        true => instruction.operand(0),
        false => instruction,
    }
}

/// Where in its variable an access finds or leaves a pointer.
fn pointer_at(access: &SlotAccess) -> Option<VariableBytes> {
    match *access {
        SlotAccess::Load { load, part } => load.ty().is_pointer().then_some(part),
        SlotAccess::Store { store, part } => store.operand(0).ty().is_pointer().then_some(part),
        SlotAccess::Allocation { part, .. } => Some(part),
        _ => None,
    }
}

/// The nodes of the pointers in a part of a variable.
fn kept(variable: Value, part: VariableBytes) -> PointerStore {
    match part.exact() {
        Some(slot) => PointerStore::Slot(variable, slot),
        None => PointerStore::Any(variable),
    }
}
