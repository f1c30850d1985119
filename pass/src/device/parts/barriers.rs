//! The barriers of a block, and the one at which the workers of twins meet.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::super::ir::*;

/// Not of the aligned form: lanes of a warp may come from different places.
const BARRIER: &str = "llvm.nvvm.barrier.cta.sync.all";

/// Whether this LLVM has the barrier that twins need.
pub fn are_known() -> bool {
    llvm!(LLVMLookupIntrinsicID(BARRIER.as_ptr().cast(), BARRIER.len())) != 0
}

/// Lets all threads of a worker meet.
pub fn meet(module: LLVMModuleRef, builder: &Builder) {
    let context = llvm!(LLVMGetModuleContext(module));
    let first = llvm!(LLVMConstInt(LLVMInt32TypeInContext(context), 0, 0));
    builder.call(intrinsic(module, BARRIER), &mut [first]);
}

/// The declaration of an intrinsic that is not overloaded.
pub fn intrinsic(module: LLVMModuleRef, name: &str) -> LLVMValueRef {
    let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
    llvm!(LLVMGetIntrinsicDeclaration(module, id, std::ptr::null_mut(), 0))
}
