//! The barriers of a block, and those at which threads vote that have returned.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::super::ir::*;

/// At which threads vote: not of the aligned form, since lanes of a warp come from different places.
pub const VOTE: &str = "llvm.nvvm.barrier.cta.red.or.all";
/// At which all threads meet.
pub const BARRIER: &str = "llvm.nvvm.barrier.cta.sync.all";

/// Whether this LLVM has the barriers that twins need.
pub fn are_known() -> bool {
    let is_known = |name: &str| llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len())) != 0;
    is_known(VOTE) && is_known(BARRIER)
}

/// Whether an intrinsic, without `llvm.nvvm.`, is `__syncthreads()`.
pub fn is_plain_barrier(name: &str) -> bool {
    matches!(name, "barrier.cta.sync.aligned.all" | "barrier.cta.sync.all")
}

/// Makes a barrier one at which threads that have returned vote.
pub fn vote(module: LLVMModuleRef, barrier: LLVMValueRef) {
    let context = llvm!(LLVMGetModuleContext(module));
    let goes_on = llvm!(LLVMConstInt(LLVMInt1TypeInContext(context), 1, 0));
    let first = llvm!(LLVMConstInt(LLVMInt32TypeInContext(context), 0, 0));
    Builder::before(barrier).call(intrinsic(module, VOTE), &mut [first, goes_on]);
    llvm!(LLVMInstructionEraseFromParent(barrier));
}

/// The declaration of an intrinsic that is not overloaded.
pub fn intrinsic(module: LLVMModuleRef, name: &str) -> LLVMValueRef {
    let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
    llvm!(LLVMGetIntrinsicDeclaration(module, id, std::ptr::null_mut(), 0))
}
