//! Memory flow: whether a function works on device memory of its caller, or passes memory that it allocates
//! to its caller; found in the unoptimised code of clang, which keeps parameters in variables.
use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::Class;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::Value;
use crate::host::ir::memory;

/// How many steps a value is followed.
const DEPTH: u32 = 8;

/// Whether a function launches on memory that its caller passes, itself or by functions that `launches`
/// names.
pub fn launches_on_given(collected: &Collected, launches: impl Fn(Value) -> bool, function: Value) -> bool {
    let is_launch = |one: &Value| match collected.callee(*one) {
        Some(Callee::Stub(_)) => true,
        Some(Callee::Other(callee)) => launches(callee),
        _ => false,
    };
    let given = |one: Value| {
        let mut pointers = one.arguments().filter(|argument| argument.ty().is_pointer());
        pointers.any(|argument| is_of_caller(argument, DEPTH))
    };
    function.instructions().filter(is_launch).any(given)
}

/// Whether a function passes memory that it allocates, itself or through `allocators`, to its caller: by its
/// result, or through a pointer parameter.
pub fn hands_out(collected: &Collected, allocators: impl Fn(Value) -> bool, function: Value) -> bool {
    let is_allocation = |one: &Value| match collected.callee(*one) {
        Some(Callee::Runtime(entry)) => entry.class == Class::Alloc,
        Some(Callee::Other(callee)) => allocators(callee),
        _ => false,
    };
    let goes_out = |call: Value| {
        let through = |pointer: Value| {
            let (base, _) = memory::address(pointer);
            if base.is(LLVMOpcode::LLVMAlloca) {
                variable_goes_out(base, DEPTH)
            } else {
                is_of_caller(base, DEPTH)
            }
        };
        let mut pointers = call.arguments().filter(|argument| argument.ty().is_pointer());
        pointers.any(through) || (call.ty().is_pointer() && value_goes_out(call, DEPTH))
    };
    function.instructions().filter(is_allocation).any(goes_out)
}

/// Whether a pointer comes from a parameter.
fn is_of_caller(pointer: Value, depth: u32) -> bool {
    if pointer.is_argument() {
        return true;
    }
    if depth == 0 {
        return false;
    }
    let from = |at: u32| is_of_caller(pointer.operand(at), depth - 1);
    match pointer.opcode() {
        Some(LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast) => from(0),
        Some(LLVMOpcode::LLVMSelect) => from(1) || from(2),
        Some(LLVMOpcode::LLVMLoad) => {
            let (base, _) = memory::address(pointer.operand(0));
            if !base.is(LLVMOpcode::LLVMAlloca) {
                return is_of_caller(base, depth - 1);
            }
            let mut kept = base.users().into_iter().filter(|&user| is_store_to(user, base));
            kept.any(|store| is_of_caller(store.operand(0), depth - 1))
        }
        _ => false,
    }
}

fn is_store_to(user: Value, variable: Value) -> bool {
    user.is(LLVMOpcode::LLVMStore) && user.operand(1) == variable
}

/// Whether what a variable holds leaves the function.
fn variable_goes_out(variable: Value, depth: u32) -> bool {
    depth > 0
        && variable.users().into_iter().any(|user| match user.opcode() {
            Some(LLVMOpcode::LLVMGetElementPtr) => variable_goes_out(user, depth - 1),
            Some(LLVMOpcode::LLVMLoad) => value_goes_out(user, depth - 1),
            // A structure is copied whole.
            Some(LLVMOpcode::LLVMCall) => {
                let copies = user.callee().is_some_and(memory::copies_host_memory);
                copies && user.operand(1) == variable && place_is_out(user.operand(0), depth - 1)
            }
            _ => false,
        })
}

fn value_goes_out(value: Value, depth: u32) -> bool {
    depth > 0
        && value.users().into_iter().any(|user| match user.opcode() {
            Some(LLVMOpcode::LLVMRet) => true,
            Some(LLVMOpcode::LLVMStore) => {
                user.operand(0) == value && place_is_out(user.operand(1), depth - 1)
            }
            Some(LLVMOpcode::LLVMInsertValue) => value_goes_out(user, depth - 1),
            _ => false,
        })
}

/// Whether what is written to a place leaves the function.
fn place_is_out(place: Value, depth: u32) -> bool {
    let (base, _) = memory::address(place);
    if base.is(LLVMOpcode::LLVMAlloca) {
        variable_goes_out(base, depth)
    } else {
        is_of_caller(base, depth)
    }
}
