//! Instruments kernels with the sanitizers that the host code is built with: in a program built with
//! `-fsanitize=address`, errors of kernels on their local arrays are found.

use std::ffi::c_uint;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use super::ir::{self, attribute_kind, llvm};

/// The attributes by which clang selects what the passes of the sanitizers instrument.
const KINDS: [&str; 3] = ["sanitize_address", "sanitize_memory", "sanitize_thread"];

const INDEX: c_uint = inkwell::llvm_sys::LLVMAttributeFunctionIndex;

/// Whether any function of the host is instrumented. The arrays of its kernels are then kept on stacks: in
/// the frame of a coroutine they are adjacent, and no sanitizer knows their bounds.
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
