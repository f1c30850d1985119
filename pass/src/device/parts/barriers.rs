//! Where threads of a worker meet between two of its blocks.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::super::ir::*;

/// Of the aligned form: the other one lets lanes of a warp pass apart from each other: ptxas has them
/// run the next block apart, some not at all.
const BARRIER: &str = "llvm.nvvm.barrier.cta.sync.aligned.all";
/// At which lanes of a warp meet.
const WARP_BARRIER: &str = "llvm.nvvm.bar.warp.sync";

/// Whether this LLVM has the barriers that twins need.
pub fn are_known() -> bool {
    let is_known = |name: &str| llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len())) != 0;
    is_known(BARRIER) && is_known(WARP_BARRIER)
}

/// Lets all threads of a worker meet, wherever those of a warp come from.
pub fn meet(module: LLVMModuleRef, builder: &Builder) {
    meet_in_warp(module, builder);
    let context = llvm!(LLVMGetModuleContext(module));
    let first = llvm!(LLVMConstInt(LLVMInt32TypeInContext(context), 0, 0));
    builder.call(intrinsic(module, BARRIER), &mut [first]);
}

/// Lets the lanes of a warp meet: as one a block begins, and what follows goes on.
pub fn meet_in_warp(module: LLVMModuleRef, builder: &Builder) {
    let context = llvm!(LLVMGetModuleContext(module));
    let all = llvm!(LLVMConstInt(
        LLVMInt32TypeInContext(context),
        u64::from(u32::MAX),
        0
    ));
    builder.call(intrinsic(module, WARP_BARRIER), &mut [all]);
}

/// The declaration of an intrinsic that is not overloaded.
pub fn intrinsic(module: LLVMModuleRef, name: &str) -> LLVMValueRef {
    let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
    llvm!(LLVMGetIntrinsicDeclaration(module, id, std::ptr::null_mut(), 0))
}
