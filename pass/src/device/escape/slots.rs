//! The values of a module: what stands for each while rules are made from LLVM's IR.
use std::collections::HashMap;

use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::set::Token;
use super::solve::{How, Node, Place, Rule, Solver};
use crate::device::callgraph::mentioned;
use crate::device::helpers;
use crate::device::ir::*;
use crate::device::layout::Layout;

/// The address space of shared memory.
const SHARED: u32 = 3;

/// What stands for a value: structures and arrays are memories, so that their fields are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    One(Node),
    Many(Place),
}

/// A module while its rules are made.
pub(super) struct Reader {
    pub(super) module: LLVMModuleRef,
    pub(super) layout: Layout,
    pub(super) solver: Solver,
    slots: HashMap<LLVMValueRef, Slot>,
    results: HashMap<LLVMValueRef, Slot>,
    shared: HashMap<LLVMValueRef, Place>,
    /// The memory of parameters that are passed as copies in memory.
    copies: HashMap<LLVMValueRef, Place>,
    /// All shared memory whose size the launch gives: it lies at one address.
    dynamic: Option<Place>,
    /// Functions that may be called through pointers.
    pub(super) taken: Vec<LLVMValueRef>,
}

impl Reader {
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
    pub(super) fn all_shared(&self) -> Vec<Place> {
        self.shared.values().copied().chain(self.dynamic).collect()
    }

    /// What stands for a value.
    pub(super) fn slot(&mut self, value: LLVMValueRef) -> Slot {
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
            if let (Slot::One(node), Some(_)) = (slot, at.and_then(|at| by_value(function, at as u32))) {
                let place = self.solver.place();
                self.solver.hold(node, Token::Local(place, 0, 0));
                self.copies.insert(value, place);
            }
        }
        slot
    }

    /// The memory of a parameter that is passed as a copy in memory.
    pub(super) fn by_value_place(&mut self, parameter: LLVMValueRef) -> Place {
        self.slot(parameter);
        self.copies[&parameter]
    }

    pub(super) fn new_slot(&mut self, ty: LLVMTypeRef) -> Slot {
        match kind(ty) {
            LLVMTypeKind::LLVMStructTypeKind | LLVMTypeKind::LLVMArrayTypeKind => {
                Slot::Many(self.solver.place())
            }
            _ => Slot::One(self.solver.node()),
        }
    }

    /// What stands for what a function returns, if it does.
    pub(super) fn result(&mut self, function: LLVMValueRef) -> Option<Slot> {
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
    fn constant(&mut self, value: LLVMValueRef, slot: Slot) {
        let is_pointer = kind(llvm!(LLVMTypeOf(value))) == LLVMTypeKind::LLVMPointerTypeKind;
        if let (true, Slot::One(node)) = (is_pointer, slot) {
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
                Slot::One(node) => self.solver.hold(node, token),
                Slot::Many(place) => self.solver.fill(place, None, token),
            }
        }
    }

    /// The memory of a shared variable.
    fn shared_place(&mut self, global: LLVMValueRef) -> Option<Place> {
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
    pub(super) fn publish(&mut self, slot: Slot, how: How) {
        self.solver.rule(match slot {
            Slot::One(from) => Rule::Publish { from, how },
            Slot::Many(from) => Rule::PublishAll { from, how },
        });
    }

    /// One value is another one.
    pub(super) fn copy(&mut self, to: Slot, from: Slot) {
        match (to, from) {
            (Slot::One(to), Slot::One(from)) => self.solver.rule(Rule::Copy { to, from }),
            (Slot::Many(to), Slot::Many(from)) => self.solver.rule(Rule::InsertFrom { to, at: 0, from }),
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
