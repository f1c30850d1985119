//! Effects: whether a function that is given an address only reads what is there.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;

use super::helpers;
use super::ir::Value;
use super::prepare::is_marker;

/// Whether a call, of a function that is not the CUDA runtime's, leaves what this argument points to as it is, and keeps no
/// way to it.
pub fn only_reads(call: Value, argument: u32) -> bool {
    reads_only(call, argument, &mut HashSet::new())
}

fn reads_only(call: Value, argument: u32, seen: &mut HashSet<Value>) -> bool {
    if is_marker(call) || helpers::is_only_read(call, argument) {
        return true;
    }
    let Some(callee) = call.callee().filter(|callee| !callee.is_declaration()) else {
        return false;
    };
    let Some(parameter) = callee.parameters().nth(argument as usize) else {
        return false;
    };
    // Asked again while it is being looked at, the answer is what the rest says.
    !seen.insert(parameter) || is_only_read(parameter, seen)
}

/// Whether nothing is written through an address in its function, without optimisation too: parameters are then kept in
/// variables of their own.
fn is_only_read(address: Value, seen: &mut HashSet<Value>) -> bool {
    address.users().into_iter().all(|user| match user.opcode() {
        Some(LLVMOpcode::LLVMLoad | LLVMOpcode::LLVMICmp) => true,
        Some(
            LLVMOpcode::LLVMGetElementPtr
            | LLVMOpcode::LLVMBitCast
            | LLVMOpcode::LLVMPHI
            | LLVMOpcode::LLVMSelect
            | LLVMOpcode::LLVMFreeze,
        ) => !seen.insert(user) || is_only_read(user, seen),
        Some(LLVMOpcode::LLVMStore) => {
            let variable = user.operand(1);
            user.operand(0) == address
                && copies(variable)
                    .is_some_and(|copies| copies.into_iter().all(|copy| is_only_read(copy, seen)))
        }
        Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
            let given = user
                .arguments()
                .enumerate()
                .filter(|(_, argument)| *argument == address);
            given
                .map(|(at, _)| at as u32)
                .collect::<Vec<_>>()
                .into_iter()
                .all(|at| reads_only(user, at, seen))
        }
        _ => false,
    })
}

/// What is read back from a variable that only holds an address; none where more is done with it.
fn copies(variable: Value) -> Option<Vec<Value>> {
    if !variable.is(LLVMOpcode::LLVMAlloca) {
        return None;
    }
    let mut copies = Vec::new();
    for user in variable.users() {
        match user.opcode()? {
            LLVMOpcode::LLVMLoad => copies.push(user),
            LLVMOpcode::LLVMStore if user.operand(1) == variable => {}
            _ if is_marker(user) => {}
            _ => return None,
        }
    }
    Some(copies)
}
