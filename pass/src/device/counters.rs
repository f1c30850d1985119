//! Counts what a thread executes, for the software GPU's model of device time.
//!
//! Every function keeps a count of its own and adds it to the count of the thread when it returns. The count
//! is a local variable that the optimiser keeps in a register, and whose loops it often sums up in closed
//! form; so counting is added before optimisation, but after the clean-up that makes -O0 code like that of
//! any other level.
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;
use super::slots;

/// Where `softgpu_thread` keeps the count.
const OPS_AT: u64 = 80;

/// The weight of one instruction in simple operations: more for what takes the device longer.
fn weight(instruction: LLVMValueRef) -> u64 {
    match opcode(instruction) {
        LLVMOpcode::LLVMPHI
        | LLVMOpcode::LLVMAlloca
        | LLVMOpcode::LLVMBitCast
        | LLVMOpcode::LLVMAddrSpaceCast => 0,
        LLVMOpcode::LLVMUnreachable | LLVMOpcode::LLVMExtractValue | LLVMOpcode::LLVMInsertValue => 0,
        LLVMOpcode::LLVMLoad | LLVMOpcode::LLVMStore => 4,
        LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg | LLVMOpcode::LLVMFence => 16,
        LLVMOpcode::LLVMSDiv | LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMSRem | LLVMOpcode::LLVMURem => 8,
        LLVMOpcode::LLVMFDiv | LLVMOpcode::LLVMFRem => 8,
        LLVMOpcode::LLVMCall => match callee(instruction).map(name) {
            Some(name)
                if name.starts_with("softgpu.thread")
                    || name == "softgpu.poll"
                    || name.starts_with("llvm.lifetime") =>
            {
                0
            }
            Some(name) if name.starts_with("llvm.fabs") || name.starts_with("llvm.fma") => 1,
            _ => 8,
        },
        _ => 1,
    }
}

/// Adds counting to every function of the device code.
pub fn insert(module: LLVMModuleRef) {
    let context = llvm!(LLVMGetModuleContext(module));
    let thread = slots::question(module, "softgpu.thread");
    let i64 = llvm!(LLVMInt64TypeInContext(context));
    for function in defined_functions(module) {
        if string_attribute(function, "softgpu-runtime").is_some() {
            continue;
        }
        let start = Builder::before(block_instructions(llvm!(LLVMGetEntryBasicBlock(function)))[0]);
        let count = llvm!(LLVMBuildAlloca(start.raw(), i64, c"ops".as_ptr()));
        llvm!(LLVMBuildStore(start.raw(), LLVMConstInt(i64, 0, 0), count));
        for block in blocks(function) {
            let sum: u64 = block_instructions(block).into_iter().map(weight).sum();
            let end = llvm!(LLVMGetBasicBlockTerminator(block));
            let builder = Builder::before(end);
            let add = |to: LLVMValueRef, more: LLVMValueRef| {
                let old = llvm!(LLVMBuildLoad2(builder.raw(), i64, to, c"".as_ptr()));
                let new = llvm!(LLVMBuildAdd(builder.raw(), old, more, c"".as_ptr()));
                llvm!(LLVMBuildStore(builder.raw(), new, to));
                new
            };
            let counted = add(count, llvm!(LLVMConstInt(i64, sum, 0)));
            if opcode(end) == LLVMOpcode::LLVMRet {
                let this = builder.call(thread, &mut []);
                add(builder.byte_offset(this, OPS_AT), counted);
            }
        }
    }
}
