//! Makes a file's device code (`-fgpu-rdc`) fit for the link, where clang names what no file has.
//!
//! - A kernel of another file that host code launches is declared as a device function, and nvlink takes no
//!   name for both.
//! - A static variable that host code names after a kernel has used it is defined by a name of its own, which
//!   is not the one that the kernel uses.

use inkwell::llvm_sys::LLVMCallConv;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::{LLVMModuleRef, LLVMTypeRef, LLVMValueRef};

use super::ir::*;

/// Where clang lists what other files have and host code uses.
const USED: &str = "__clang_gpu_used_external";
/// What clang puts behind the name of a static variable that host code names, and before the file's number.
const STATIC: &str = "__static__";

/// Mends a device module; whether there was anything to mend.
pub fn make_linkable(module: LLVMModuleRef) -> bool {
    let kernels = declare_kernels(module);
    let variables = join_static_variables(module);
    kernels || variables
}

/// Declares kernels of other files as such.
fn declare_kernels(module: LLVMModuleRef) -> bool {
    let convention = LLVMCallConv::LLVMPTXKernelCallConv as u32;
    let mut changed = false;
    for list in globals(module).into_iter().filter(|&one| name(one) == USED) {
        let entries = match llvm!(LLVMGetInitializer(list)) {
            none if none.is_null() => continue,
            entries => operands(entries),
        };
        // Functions in the list are kernels: no other function is of use to host code.
        for kernel in entries
            .into_iter()
            .filter(|&one| is_function(one) && is_declaration(one))
        {
            llvm!(LLVMSetFunctionCallConv(kernel, convention));
            changed = true;
        }
    }
    changed
}

/// Has the uses of a static variable's first name mean its definition.
fn join_static_variables(module: LLVMModuleRef) -> bool {
    let all = globals(module);
    let mut changed = false;
    for &variable in all.iter().filter(|&&one| is_declaration(one)) {
        let start = name(variable) + STATIC;
        let is_definition = |one: &LLVMValueRef| {
            !is_declaration(*one) && is_numbered(&name(*one), &start) && type_of(*one) == type_of(variable)
        };
        let mut definitions = all.iter().copied().filter(is_definition);
        if let (Some(definition), None) = (definitions.next(), definitions.next()) {
            llvm!(LLVMReplaceAllUsesWith(variable, definition));
            llvm!(LLVMDeleteGlobal(variable));
            changed = true;
        }
    }
    changed
}

/// Whether a name is `start` and a file's number, in hexadecimal digits.
fn is_numbered(name: &str, start: &str) -> bool {
    let number = name.strip_prefix(start);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The type of a pointer to it, address space included.
fn type_of(global: LLVMValueRef) -> LLVMTypeRef {
    llvm!(LLVMTypeOf(global))
}
