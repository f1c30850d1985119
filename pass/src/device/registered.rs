//! What the host module registers with the CUDA runtime: the stub of each kernel, and the shadow of each
//! device variable.
use std::collections::HashMap;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;
use super::module::string_constant;

/// What the names of clang's list of kernels and variables begin with, where device code is linked across
/// files.
pub const OFFLOAD_ENTRY: &str = ".offloading.entry.";

/// The host's side of kernels and variables, by the device's symbols.
#[derive(Default)]
pub struct RegisteredSymbols {
    /// Stubs of kernels.
    pub stubs: HashMap<String, LLVMValueRef>,
    /// Shadows of variables.
    pub variables: HashMap<String, LLVMValueRef>,
}

/// Reads the calls by which clang's constructor registers them.
pub fn registered(host: LLVMModuleRef) -> RegisteredSymbols {
    // With or without MGB's own prefix: the host's half of the pass may have renamed the calls.
    let calls = |name: &str| {
        let names = [name.to_owned(), format!("mgb_{name}")];
        let functions = names.map(|name| llvm!(LLVMGetNamedFunction(host, c_string(&name).as_ptr())));
        let users = functions
            .into_iter()
            .filter(|at| !at.is_null())
            .flat_map(users)
            .collect::<Vec<_>>();
        users
            .into_iter()
            .filter(|&user| is_instruction(user) && is_call(user))
    };
    // (handle, stub or shadow, address as text, device symbol, ...).
    let entry = |call: LLVMValueRef| Some((string_constant(operands(call)[3])?, operands(call)[1]));
    let mut found = RegisteredSymbols {
        stubs: calls("__cudaRegisterFunction").filter_map(entry).collect(),
        variables: calls("__cudaRegisterVar").filter_map(entry).collect(),
    };
    found.add_listed(host);
    found
}

impl RegisteredSymbols {
    /// Where device code is linked across files, a list stands for the calls, which the link makes of it.
    fn add_listed(&mut self, host: LLVMModuleRef) {
        // Of `__tgt_offload_entry`: stub or shadow, device symbol, bytes, which kernels have none of.
        const ADDRESS: usize = 4;
        const SYMBOL: usize = 5;
        const BYTES: usize = 6;
        for entry in globals(host)
            .into_iter()
            .filter(|&global| name(global).starts_with(OFFLOAD_ENTRY) && !is_declaration(global))
        {
            let fields = operands(llvm!(LLVMGetInitializer(entry)));
            let Some(symbol) = fields.get(SYMBOL).and_then(|&symbol| string_constant(symbol)) else {
                continue;
            };
            let is_kernel = fields
                .get(BYTES)
                .is_some_and(|&bytes| llvm!(LLVMConstIntGetZExtValue(bytes)) == 0);
            let all = if is_kernel {
                &mut self.stubs
            } else {
                &mut self.variables
            };
            all.insert(symbol, fields[ADDRESS]);
        }
    }
}
