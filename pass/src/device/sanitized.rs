//! Kernels are looked at by the sanitizers that the host's code is built with: a program built with
//! `-fsanitize=address` finds what its kernels do wrong to their local arrays.

use std::ffi::c_uint;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use super::ir::{self, attribute_kind, llvm};

/// By which clang tells the sanitizers' passes what to instrument.
const KINDS: [&str; 3] = ["sanitize_address", "sanitize_memory", "sanitize_thread"];

const INDEX: c_uint = inkwell::llvm_sys::LLVMAttributeFunctionIndex;

/// Whether any function of the host is looked at. The arrays of its kernels are then to stay on stacks: in a coroutine's
/// frame they lie side by side, and no sanitizer knows where one ends.
pub fn is(host: LLVMModuleRef) -> bool {
    KINDS.iter().any(|kind| has(host, attribute_kind(kind)))
}

fn has(host: LLVMModuleRef, kind: c_uint) -> bool {
    ir::defined_functions(host)
        .into_iter()
        .any(|function| !llvm!(LLVMGetEnumAttributeAtIndex(function, INDEX, kind)).is_null())
}

/// Gives the functions of `code` the host's sanitizers.
pub fn as_host(host: LLVMModuleRef, code: LLVMModuleRef) {
    for kind in KINDS.map(attribute_kind) {
        if !has(host, kind) {
            continue;
        }
        let attribute = llvm!(LLVMCreateEnumAttribute(LLVMGetModuleContext(code), kind, 0));
        for function in ir::defined_functions(code) {
            llvm!(LLVMAddAttributeAtIndex(function, INDEX, attribute));
        }
    }
}
