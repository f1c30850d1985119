//! Integers: what programs compute from the address of an object without a way back to it: whether it is
//! aligned, how far apart two pointers are, whether it is the same as another.
use inkwell::llvm_sys::LLVMOpcode;

use crate::host::ir::Value;

/// How many operations an integer is followed through.
const DEPTH: u32 = 8;
/// A mask below this, or a power of two up to it as a divisor, leaves too little of an address to make a
/// pointer of it.
const FEW: u64 = 1 << 16;

/// The differences from other pointers that are all that is left of what this `ptrtoint` gives; none where a
/// pointer can be made of it. A difference leads from one pointer to the other, and is harmless where both are
/// into one object.
pub fn differences(integer: Value) -> Option<Vec<Value>> {
    let mut found = Vec::new();
    is_forgotten(integer, true, DEPTH, &mut found).then_some(found)
}

/// Whether a pointer can be made neither of an integer nor of what is computed of it. Its low bits are
/// forgotten while they are those of the address (`is_low`): other bits may be joined to all of it.
fn is_forgotten(integer: Value, is_low: bool, depth: u32, differences: &mut Vec<Value>) -> bool {
    depth > 0
        && integer.users().into_iter().all(|user| match user.opcode() {
            Some(LLVMOpcode::LLVMICmp) => true,
            // A mask that is chosen at run time finds out one bit after the other.
            Some(LLVMOpcode::LLVMAnd) => {
                let mut masks = [0, 1].into_iter().filter_map(|at| user.operand(at).constant());
                let mask = masks.next().filter(|_| is_low);
                mask.is_some_and(|mask| mask < FEW || is_forgotten(user, is_low, depth - 1, differences))
            }
            Some(LLVMOpcode::LLVMURem) if user.operand(0) == integer && is_low => {
                let divisor = user.operand(1).constant();
                let is_few = divisor.is_some_and(|by| by.is_power_of_two() && by <= FEW);
                is_few || is_forgotten(user, false, depth - 1, differences)
            }
            Some(LLVMOpcode::LLVMSub)
                if [0, 1]
                    .into_iter()
                    .all(|at| user.operand(at).is(LLVMOpcode::LLVMPtrToInt)) =>
            {
                if !is_forgotten(user, false, depth - 1, &mut Vec::new()) {
                    differences.push(user);
                }
                true
            }
            Some(
                LLVMOpcode::LLVMAdd
                | LLVMOpcode::LLVMSub
                | LLVMOpcode::LLVMZExt
                | LLVMOpcode::LLVMTrunc
                | LLVMOpcode::LLVMOr,
            ) => is_forgotten(user, is_low, depth - 1, differences),
            Some(LLVMOpcode::LLVMLShr | LLVMOpcode::LLVMURem) => {
                is_forgotten(user, false, depth - 1, differences)
            }
            _ => false,
        })
}
