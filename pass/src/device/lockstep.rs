//! Keeps the lanes of a warp in step where they read each other's memory.
//!
//! The lanes of a real warp execute an instruction together unless they have diverged. Since Volta CUDA no
//! longer guarantees that without `__syncwarp`, but much code relies on it: the best known is the last warp
//! of a reduction that adds up through volatile shared memory. Here each lane runs alone, so in kernels whose
//! threads wait for each other, a lane that reaches a volatile access or a fence waits until its whole warp
//! has reached such a place. It waits for no particular lane: once no lane of the warp can continue, all that
//! wait at such places do. So this delays, and never hangs.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::callgraph::Reach;
use super::ir::*;

/// The address space of a thread's own variables.
const LOCAL: u32 = 5;

/// Adds a wait for the warp before the volatile accesses and fences of kernels whose threads wait for each
/// other.
pub fn insert(module: LLVMModuleRef, reach: &[Reach]) {
    let meet = llvm!(LLVMGetNamedFunction(module, c"softgpu.active_mask_at".as_ptr()));
    if meet.is_null() {
        return;
    }
    let waits = |function: &LLVMValueRef| string_attribute(*function, "softgpu-waits").is_some();
    let ours = |function: LLVMValueRef| string_attribute(function, "softgpu-runtime").is_some();
    let together: HashSet<LLVMValueRef> = reach
        .iter()
        .filter(|reach| reach.functions.iter().any(waits))
        .flat_map(|reach| reach.functions.iter().copied())
        .filter(|&function| !is_declaration(function) && !ours(function))
        .collect();
    for function in together {
        for access in instructions(function)
            .into_iter()
            .filter(|&at| is_seen_by_others(at))
        {
            let builder = Builder::before(access);
            let i32 = llvm!(LLVMInt32TypeInContext(LLVMGetModuleContext(module)));
            builder.call(meet, &mut [llvm!(LLVMConstInt(i32, 0, 0))]);
        }
    }
}

/// Whether an instruction is a fence, or a volatile load or store of memory that other threads see.
fn is_seen_by_others(instruction: LLVMValueRef) -> bool {
    let place = match opcode(instruction) {
        LLVMOpcode::LLVMLoad => 0,
        LLVMOpcode::LLVMStore => 1,
        LLVMOpcode::LLVMFence => return llvm!(LLVMIsAtomicSingleThread(instruction)) == 0,
        _ => return false,
    };
    let pointer = llvm!(LLVMGetOperand(instruction, place));
    llvm!(LLVMGetVolatile(instruction)) != 0
        && llvm!(LLVMGetPointerAddressSpace(LLVMTypeOf(pointer))) != LOCAL
        && llvm!(LLVMIsAAllocaInst(pointer)).is_null()
}
