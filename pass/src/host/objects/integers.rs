//! Integers: what programs compute from the address of an object without a way back to it: whether it is
//! aligned, how far apart two pointers are, whether it is the same as another.
use inkwell::llvm_sys::LLVMOpcode;

use crate::host::ir::Value;

/// How many operations an integer is followed through.
const DEPTH: u32 = 8;
/// A mask or divisor below this leaves too little of an address to make a pointer of it.
const FEW: u64 = 1 << 16;

/// Whether no pointer can come of what this `ptrtoint` gives.
pub fn is_harmless(integer: Value) -> bool {
    is_forgotten(integer, DEPTH)
}

fn is_forgotten(integer: Value, depth: u32) -> bool {
    depth > 0
        && integer.users().into_iter().all(|user| match user.opcode() {
            Some(LLVMOpcode::LLVMICmp) => true,
            Some(LLVMOpcode::LLVMAnd) => {
                [0, 1].into_iter().any(|at| is_few(user.operand(at))) || is_next(user, depth)
            }
            Some(LLVMOpcode::LLVMURem) if user.operand(0) == integer && is_few(user.operand(1)) => true,
            // The way from one pointer to another: only that other leads back, with which this one is
            // followed.
            Some(LLVMOpcode::LLVMSub)
                if [0, 1]
                    .into_iter()
                    .all(|at| user.operand(at).is(LLVMOpcode::LLVMPtrToInt)) =>
            {
                true
            }
            Some(
                LLVMOpcode::LLVMAdd
                | LLVMOpcode::LLVMSub
                | LLVMOpcode::LLVMLShr
                | LLVMOpcode::LLVMURem
                | LLVMOpcode::LLVMZExt
                | LLVMOpcode::LLVMTrunc
                | LLVMOpcode::LLVMOr,
            ) => is_next(user, depth),
            _ => false,
        })
}

fn is_next(user: Value, depth: u32) -> bool {
    is_forgotten(user, depth - 1)
}

fn is_few(value: Value) -> bool {
    value.constant().is_some_and(|bits| bits < FEW)
}
