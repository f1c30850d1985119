//! Functions that are known to keep no address, and those that are not.
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use crate::device::ir::*;
use crate::device::module;

/// CUDA's own functions that keep no address that they are given; what `vprintf` prints, no program reads.
const KNOWN: [&str; 5] = ["malloc", "free", "vprintf", "__assertfail", "__nvvm_reflect"];

/// Whether a declared function is known to keep no address.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || name.starts_with("__nv_")
}

/// Whether a call is a marker that does not access memory.
pub(super) fn is_marker(call: LLVMValueRef) -> bool {
    let name = callee(call).map(name).unwrap_or_default();
    ["llvm.lifetime.", "llvm.dbg.", "llvm.assume"]
        .iter()
        .any(|marker| name.starts_with(marker))
}

/// Whether a call of this function may run other code than the body here, if there is one.
pub(super) fn is_opaque(function: LLVMValueRef) -> bool {
    let name = name(function);
    let replaceable = matches!(
        llvm!(LLVMGetLinkage(function)),
        LLVMLinkage::LLVMWeakAnyLinkage | LLVMLinkage::LLVMLinkOnceAnyLinkage
    );
    let is_kernel = module::is_kernel(function);
    (is_declaration(function) && !name.starts_with("llvm.") && !is_known(&name))
        || (replaceable && !is_kernel)
}
