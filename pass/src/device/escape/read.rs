//! Rules from LLVM's IR: what kernels reach, the addresses that they are given, and where control enters from
//! elsewhere.
use std::collections::HashSet;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::given::GivenAddress;
use super::known::is_opaque;
use super::set::Token;
use super::slots::{RuleReader, ValueSlot, by_value};
use super::solve::{EscapeRule, MemoryId, Solver};
use crate::device::callgraph::CallGraph;
use crate::device::ir::*;
use crate::device::module;

/// A kernel, and what it reaches.
pub(super) struct Reached {
    pub(super) kernel: LLVMValueRef,
    functions: HashSet<LLVMValueRef>,
    /// Whether code that is not seen may run in it.
    pub(super) is_open: bool,
}

impl Reached {
    /// All kernels of a module.
    pub(super) fn all(module: LLVMModuleRef) -> Vec<Self> {
        let graph = CallGraph::new(module);
        let reached = |kernel| {
            let reach = graph.reach(kernel);
            Self {
                kernel,
                is_open: reach.calls_pointer || reach.functions.iter().any(|&one| is_opaque(one)),
                functions: reach.functions,
            }
        };
        module::kernels(module).into_iter().map(reached).collect()
    }
}

impl RuleReader {
    /// The addresses that these kernels are given, and the rules of all that they reach.
    pub(super) fn read(module: LLVMModuleRef, kernels: &[Reached]) -> (Vec<GivenAddress>, Solver) {
        let mut reader = Self::new(module);
        let is_open = kernels.iter().any(|one| one.is_open);
        if is_open {
            reader.taken = CallGraph::new(module).taken().collect();
        }
        let (mut given, mut owners) = (Vec::new(), Vec::new());
        for one in kernels {
            reader.given(one.kernel, &mut given);
            owners.resize(given.len(), one);
        }
        // In the module's order, so that the same source gives the same words.
        for function in defined_functions(module) {
            let is_reached = kernels.iter().any(|one| one.functions.contains(&function));
            if !is_reached || is_opaque(function) {
                continue;
            }
            let sees = owners.iter().map(|owner| owner.functions.contains(&function));
            reader.solver.scope(sees.collect());
            // Code that is not seen may call it, by its name or through a pointer.
            if is_open && !module::is_kernel(function) {
                reader.enter_from_elsewhere(function);
            }
            for instruction in instructions(function) {
                reader.instruction(function, instruction);
            }
        }
        if is_open {
            reader.solver.scope(Vec::new());
            reader.open_shared();
        }
        (given, reader.solver)
    }

    /// The parameters of a kernel: which hold addresses from the start.
    fn given(&mut self, kernel: LLVMValueRef, all: &mut Vec<GivenAddress>) {
        for (at, parameter) in parameters(kernel).into_iter().enumerate() {
            let number = all.len() as u32;
            let ty = by_value(kernel, at as u32);
            let pointers = self
                .layout
                .pointers(ty.unwrap_or_else(|| llvm!(LLVMTypeOf(parameter))));
            match (ty, self.slot(parameter)) {
                (Some(ty), _) => {
                    let place = self.by_value_place(parameter);
                    self.fill(place, ty, &pointers, Token::Address(number));
                }
                (None, ValueSlot::Many(place)) => {
                    let ty = llvm!(LLVMTypeOf(parameter));
                    self.fill(place, ty, &pointers, Token::Address(number));
                }
                (None, ValueSlot::One(node)) if !pointers.is_empty() => {
                    self.solver.hold(node, Token::Address(number));
                }
                _ => {}
            }
            if !pointers.is_empty() {
                all.push(GivenAddress {
                    kernel: name(kernel),
                    parameter: (at + 1, name(parameter)),
                });
            }
        }
    }

    /// Has a structure hold `token` where its type has pointers, and unknown numbers elsewhere.
    fn fill(&mut self, place: MemoryId, ty: LLVMTypeRef, pointers: &[u64], token: Token) {
        self.solver
            .fill(place, Some((0, self.layout.size(ty) as i64)), Token::Unknown);
        for &offset in pointers {
            self.solver
                .fill(place, Some((offset as i64, offset as i64 + 8)), token);
        }
    }

    /// A function that code which is not seen may call: with anything, and it gets the result.
    fn enter_from_elsewhere(&mut self, function: LLVMValueRef) {
        for (at, parameter) in parameters(function).into_iter().enumerate() {
            match self.slot(parameter) {
                ValueSlot::One(node) if by_value(function, at as u32).is_none() => {
                    self.solver.hold(node, Token::Unknown);
                }
                ValueSlot::One(_) => {
                    let place = self.by_value_place(parameter);
                    self.solver.fill(place, None, Token::Unknown);
                }
                ValueSlot::Many(place) => self.solver.fill(place, None, Token::Unknown),
            }
        }
        let how = self.solver.way("gives it to code that is not known");
        if let Some(result) = self.result(function) {
            self.publish(result, how);
        }
    }

    /// Code that is not seen may use the shared memory that others can name.
    fn open_shared(&mut self) {
        let how = self
            .solver
            .way("leaves it in shared memory to code that is not known");
        for place in self.all_shared() {
            let node = self.solver.node();
            self.solver.hold(node, Token::anywhere(place));
            self.solver.rule(EscapeRule::Expose { from: node, how });
        }
    }
}
