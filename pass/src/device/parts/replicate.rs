//! Copies of device functions that take the index of their block, and the size of the grid, as arguments.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::super::callgraph::CallGraph;
use super::super::helpers;
use super::super::ir::*;

/// The special registers that are replaced: first the block's index, then the grid's size.
const REGISTERS: [&str; 6] = [
    "llvm.nvvm.read.ptx.sreg.ctaid.x",
    "llvm.nvvm.read.ptx.sreg.ctaid.y",
    "llvm.nvvm.read.ptx.sreg.ctaid.z",
    "llvm.nvvm.read.ptx.sreg.nctaid.x",
    "llvm.nvvm.read.ptx.sreg.nctaid.y",
    "llvm.nvvm.read.ptx.sreg.nctaid.z",
];

/// The index of a block and the size of its grid, as values: x, y and z of each.
pub type BlockPlace = [LLVMValueRef; 6];

/// Replaces what a function and those that it calls find out about their block.
pub struct Replicator {
    module: LLVMModuleRef,
    graph: CallGraph,
    copies: HashMap<LLVMValueRef, LLVMValueRef>,
    needing: HashMap<LLVMValueRef, bool>,
}

impl Replicator {
    /// For functions of a module as it is now.
    pub fn new(module: LLVMModuleRef) -> Self {
        Self {
            module,
            graph: CallGraph::new(module),
            copies: HashMap::new(),
            needing: HashMap::new(),
        }
    }

    /// Replaces it in a function of which these values are known. Calls lead to copies from there on.
    pub fn replace(&mut self, function: LLVMValueRef, place: &BlockPlace) {
        for call in instructions(function).into_iter().filter(|&at| is_call(at)) {
            let Some(callee) = callee(call) else {
                continue;
            };
            let name = name(callee);
            if let Some(at) = REGISTERS.iter().position(|one| *one == name) {
                llvm!(LLVMReplaceAllUsesWith(call, place[at]));
                llvm!(LLVMInstructionEraseFromParent(call));
            } else if !is_declaration(callee) && self.needs(callee) {
                let copy = self.copy(callee);
                helpers::extend_call(call, copy, place);
            }
        }
    }

    /// Whether a function finds out about its block.
    fn needs(&mut self, function: LLVMValueRef) -> bool {
        if let Some(known) = self.needing.get(&function) {
            return *known;
        }
        let reached: HashSet<LLVMValueRef> = self.graph.reach(function).functions;
        let needs = reached
            .into_iter()
            .any(|at| REGISTERS.contains(&name(at).as_str()));
        self.needing.insert(function, needs);
        needs
    }

    fn copy(&mut self, function: LLVMValueRef) -> LLVMValueRef {
        if let Some(copy) = self.copies.get(&function) {
            return *copy;
        }
        let context = llvm!(LLVMGetModuleContext(self.module));
        let mut types = [llvm!(LLVMInt32TypeInContext(context)); 6];
        let symbol = format!("__mgb_part_{}", name(function));
        let copy = helpers::replicate(function, &symbol, &mut types);
        make_internal(copy);
        // Before it is gone through: it may call itself.
        self.copies.insert(function, copy);
        let parameters = parameters(copy);
        let place = parameters[parameters.len() - 6..]
            .try_into()
            .expect("six were added");
        self.replace(copy, &place);
        copy
    }
}
