//! What the host module registers with the CUDA runtime: the stub of each kernel, and the shadow of each
//! device variable.
use std::collections::HashMap;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;
use super::module::string_constant;

/// The host's side of kernels and variables, by the device's symbols.
#[derive(Default)]
pub struct Registered {
    /// Stubs of kernels.
    pub stubs: HashMap<String, LLVMValueRef>,
    /// Shadows of variables.
    pub variables: HashMap<String, LLVMValueRef>,
}

/// Reads the calls by which clang's constructor registers them.
pub fn registered(host: LLVMModuleRef) -> Registered {
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
    Registered {
        stubs: calls("__cudaRegisterFunction").filter_map(entry).collect(),
        variables: calls("__cudaRegisterVar").filter_map(entry).collect(),
    }
}
