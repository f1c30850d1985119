//! The values of a module: what stands for each while rules are made from LLVM's IR.
use std::collections::HashMap;

use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::set::Token;
use super::solve::{EscapeRule, How, MemoryId, Solver, ValueId};
use crate::device::callgraph::mentioned;
use crate::device::helpers;
use crate::device::ir::*;
use crate::device::layout::Layout;

/// The address space of shared memory.
const SHARED: u32 = 3;

/// What stands for a value: structures and arrays are memories, so that their fields are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueSlot {
    One(ValueId),
    Many(MemoryId),
}

/// A module while its rules are made.
pub(super) struct RuleReader {
    pub(super) module: LLVMModuleRef,
    pub(super) layout: Layout,
    pub(super) solver: Solver,
    slots: HashMap<LLVMValueRef, ValueSlot>,
    results: HashMap<LLVMValueRef, ValueSlot>,
    shared: HashMap<LLVMValueRef, MemoryId>,
    /// The memory of parameters that are passed as copies in memory.
    copies: HashMap<LLVMValueRef, MemoryId>,
    /// All shared memory whose size the launch gives: it lies at one address.
    dynamic: Option<MemoryId>,
    /// Functions that may be called through pointers.
    pub(super) taken: Vec<LLVMValueRef>,
}

impl RuleReader {
    /// Of a module, without a rule yet.
    pub(super) fn new(module: LLVMModuleRef) -> Self {
        Self {
            module,
            layout: Layout::of(module),
            solver: Solver::default(),
            slots: HashMap::new(),
            results: HashMap::new(),
            shared: HashMap::new(),
            copies: HashMap::new(),
            dynamic: None,
            taken: Vec::new(),
        }
    }

    /// All shared memory that has been named so far.
    pub(super) fn all_shared(&self) -> Vec<MemoryId> {
        self.shared.values().copied().chain(self.dynamic).collect()
    }

    /// What stands for a value.
    pub(super) fn slot(&mut self, value: LLVMValueRef) -> ValueSlot {
        if let Some(&slot) = self.slots.get(&value) {
            return slot;
        }
        let slot = self.new_slot(llvm!(LLVMTypeOf(value)));
        self.slots.insert(value, slot);
        if !llvm!(LLVMIsAConstant(value)).is_null() {
            self.constant(value, slot);
        } else if !llvm!(LLVMIsAArgument(value)).is_null() {
            let function = llvm!(LLVMGetParamParent(value));
            let at = parameters(function).iter().position(|&one| one == value);
            if let (ValueSlot::One(node), Some(_)) = (slot, at.and_then(|at| by_value(function, at as u32))) {
                let place = self.solver.place();
                self.solver.hold(node, Token::Local(place, 0, 0));
                self.copies.insert(value, place);
            }
        }
        slot
    }

    /// The memory of a parameter that is passed as a copy in memory.
    pub(super) fn by_value_place(&mut self, parameter: LLVMValueRef) -> MemoryId {
        self.slot(parameter);
        self.copies[&parameter]
    }

    pub(super) fn new_slot(&mut self, ty: LLVMTypeRef) -> ValueSlot {
        match kind(ty) {
            LLVMTypeKind::LLVMStructTypeKind | LLVMTypeKind::LLVMArrayTypeKind => {
                ValueSlot::Many(self.solver.place())
            }
            _ => ValueSlot::One(self.solver.node()),
        }
    }

    /// What stands for what a function returns, if it does.
    pub(super) fn result(&mut self, function: LLVMValueRef) -> Option<ValueSlot> {
        let ty = llvm!(LLVMGetReturnType(value_type(function)));
        if kind(ty) == LLVMTypeKind::LLVMVoidTypeKind {
            return None;
        }
        if let Some(&slot) = self.results.get(&function) {
            return Some(slot);
        }
        let slot = self.new_slot(ty);
        self.results.insert(function, slot);
        Some(slot)
    }

    /// A constant: the address of shared memory, or of something that outlives the kernel.
    fn constant(&mut self, value: LLVMValueRef, slot: ValueSlot) {
        let is_pointer = kind(llvm!(LLVMTypeOf(value))) == LLVMTypeKind::LLVMPointerTypeKind;
        if let (true, ValueSlot::One(node)) = (is_pointer, slot) {
            if llvm!(LLVMIsNull(value)) != 0 || llvm!(LLVMIsUndef(value)) != 0 {
                return;
            }
            let (base, offset) = helpers::constant_base(self.module, value);
            let token = match self.shared_place(base) {
                Some(place) => Token::Local(place, 0, 0).moved(Some((offset, 0))),
                None => Token::Unknown,
            };
            return self.solver.hold(node, token);
        }
        for global in mentioned(value) {
            let token = self.shared_place(global).map_or(Token::Unknown, Token::anywhere);
            match slot {
                ValueSlot::One(node) => self.solver.hold(node, token),
                ValueSlot::Many(place) => self.solver.fill(place, None, token),
            }
        }
    }

    /// The memory of a shared variable.
    fn shared_place(&mut self, global: LLVMValueRef) -> Option<MemoryId> {
        if llvm!(LLVMIsAGlobalVariable(global)).is_null() || address_space(global) != SHARED {
            return None;
        }
        if let Some(&place) = self.shared.get(&global) {
            return Some(place);
        }
        let place = match (is_declaration(global), self.dynamic) {
            (true, Some(place)) => place,
            _ => self.solver.place(),
        };
        if is_declaration(global) {
            self.dynamic = Some(place);
        }
        self.shared.insert(global, place);
        Some(place)
    }

    /// What a value holds goes where it is not followed.
    pub(super) fn publish(&mut self, slot: ValueSlot, how: How) {
        self.solver.rule(match slot {
            ValueSlot::One(from) => EscapeRule::Publish { from, how },
            ValueSlot::Many(from) => EscapeRule::PublishAll { from, how },
        });
    }

    /// One value is another one.
    pub(super) fn copy(&mut self, to: ValueSlot, from: ValueSlot) {
        match (to, from) {
            (ValueSlot::One(to), ValueSlot::One(from)) => self.solver.rule(EscapeRule::Copy { to, from }),
            (ValueSlot::Many(to), ValueSlot::Many(from)) => {
                self.solver.rule(EscapeRule::InsertFrom { to, at: 0, from })
            }
            _ => unreachable!("both are of one type"),
        }
    }
}

/// The type of a parameter that is passed as a copy in memory.
pub(super) fn by_value(function: LLVMValueRef, parameter: u32) -> Option<LLVMTypeRef> {
    let kind = attribute_kind("byval");
    let found = llvm!(LLVMGetEnumAttributeAtIndex(function, parameter + 1, kind));
    (!found.is_null()).then(|| llvm!(LLVMGetTypeAttributeValue(found)))
}
