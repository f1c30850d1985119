//! Makes integer divisions those of a GPU, which never trap: by zero both the quotient and the remainder have all
//! bits set, and the least number divided by minus one is itself. PTX leaves the value of a division by zero open;
//! this is what an H100 answers. It divides 64-bit numbers of which both are below 2^32 as 32-bit ones, so that
//! only the low half is set then. The host ends the process instead.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode, LLVMTypeKind};

use super::ir::*;

/// Replaces every division of device code by a number that is not constant; kernels have none of vectors before
/// they are optimised.
pub fn without_traps(module: LLVMModuleRef) {
    for function in defined_functions(module) {
        for instruction in instructions(function) {
            let (is_signed, is_quotient) = match opcode(instruction) {
                LLVMOpcode::LLVMSDiv => (true, true),
                LLVMOpcode::LLVMSRem => (true, false),
                LLVMOpcode::LLVMUDiv => (false, true),
                LLVMOpcode::LLVMURem => (false, false),
                _ => continue,
            };
            let divisor = llvm!(LLVMGetOperand(instruction, 1));
            let is_scalar = kind(llvm!(LLVMTypeOf(divisor))) == LLVMTypeKind::LLVMIntegerTypeKind;
            if is_scalar && !is_harmless(divisor) {
                guard(instruction, is_signed, is_quotient);
            }
        }
    }
}

/// Whether no dividend traps: a constant other than zero and minus one.
fn is_harmless(divisor: LLVMValueRef) -> bool {
    let constant = llvm!(LLVMIsAConstantInt(divisor));
    !constant.is_null() && llvm!(LLVMIsNull(constant)) == 0 && llvm!(LLVMConstIntGetSExtValue(constant)) != -1
}

fn guard(instruction: LLVMValueRef, is_signed: bool, is_quotient: bool) {
    let (dividend, divisor) = (
        llvm!(LLVMGetOperand(instruction, 0)),
        llvm!(LLVMGetOperand(instruction, 1)),
    );
    let ty = llvm!(LLVMTypeOf(divisor));
    let (zero, one, ones) = (
        llvm!(LLVMConstNull(ty)),
        llvm!(LLVMConstInt(ty, 1, 0)),
        llvm!(LLVMConstAllOnes(ty)),
    );
    let before = Builder::before(instruction);
    let is = |value| {
        let equal = LLVMIntPredicate::LLVMIntEQ;
        llvm!(LLVMBuildICmp(before.raw(), equal, divisor, value, c"".as_ptr()))
    };
    let by_zero = is(zero);
    let by_minus_one = is_signed.then(|| is(ones));
    let select = |condition, then, otherwise| {
        llvm!(LLVMBuildSelect(
            before.raw(),
            condition,
            then,
            otherwise,
            c"".as_ptr()
        ))
    };
    let mut safe = select(by_zero, one, divisor);
    if let Some(by_minus_one) = by_minus_one {
        safe = select(by_minus_one, one, safe);
    }
    let divided = llvm!(LLVMInstructionClone(instruction));
    llvm!(LLVMSetOperand(divided, 1, safe));
    if is_quotient {
        // What was divided by one instead need not have been divisible.
        llvm!(LLVMSetExact(divided, 0));
    }
    llvm!(LLVMInsertIntoBuilder(before.raw(), divided));
    let mut result = divided;
    if let Some(by_minus_one) = by_minus_one.filter(|_| is_quotient) {
        let negated = llvm!(LLVMBuildNeg(before.raw(), dividend, c"".as_ptr()));
        result = select(by_minus_one, negated, result);
    }
    let mut of_zero = ones;
    if llvm!(LLVMGetIntTypeWidth(ty)) == 64 {
        let low = llvm!(LLVMConstInt(ty, u32::MAX.into(), 0));
        let at_most = LLVMIntPredicate::LLVMIntULE;
        let is_short = llvm!(LLVMBuildICmp(before.raw(), at_most, dividend, low, c"".as_ptr()));
        of_zero = select(is_short, low, ones);
    }
    result = select(by_zero, of_zero, result);
    llvm!(LLVMReplaceAllUsesWith(instruction, result));
    llvm!(LLVMInstructionEraseFromParent(instruction));
}
