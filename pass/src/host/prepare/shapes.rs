//! Shapes: which functions are so small that they may be inlined, by their bodies alone, and how calls are
//! inlined.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;

use crate::host::collect::Collected;
use crate::host::ir::Value;
use crate::host::ir::cfg;
use crate::host::ir::helpers;

/// The most instructions of a wrapper: enough for a guard that checks, logs and exits.
const WRAPPER_LIMIT: usize = 120;
/// The most instructions of a function that only returns a pointer.
const FORWARD_LIMIT: usize = 8;
/// The most calls inlined into one function, against wrappers that multiply.
const INLINE_LIMIT: usize = 400;

/// Whether a function has a small body without loops, which is the one that a call runs.
pub fn is_small(collected: &Collected, function: Value) -> bool {
    collected.is_fixed(function) && stands_for_little(function)
}

/// Whether a function has a body without loops that is small.
fn stands_for_little(function: Value) -> bool {
    is_short(function) && !cfg::has_cycle(function)
}

/// Whether a function does little more than return a pointer that it is given, as `std::begin` and
/// `std::forward` do.
pub fn forwards(function: Value) -> bool {
    let is_tiny = function.instructions().take(FORWARD_LIMIT + 1).count() <= FORWARD_LIMIT;
    let calls = || function.instructions().any(|one| one.callee().is_some());
    let returns_pointer = |one: Value| {
        one.is(LLVMOpcode::LLVMRet) && one.operands().next().is_some_and(|value| value.ty().is_pointer())
    };
    is_tiny && !calls() && function.instructions().any(returns_pointer)
}

/// Whether a function has a small body and does not call itself.
pub fn is_short(function: Value) -> bool {
    !function.is_declaration()
        && function.instructions().take(WRAPPER_LIMIT + 1).count() <= WRAPPER_LIMIT
        && !function.instructions().any(|one| one.callee() == Some(function))
}

/// Inlines the calls that are wanted, and those that come in with them. True when there was one.
pub fn inline_where(function: Value, wanted: impl Fn(Value) -> bool) -> bool {
    let mut declined = HashSet::new();
    let mut any = false;
    for _ in 0..INLINE_LIMIT {
        let inlinable = |call: &Value| {
            call.is_call() && call.callee() != Some(function) && !declined.contains(call) && wanted(*call)
        };
        let Some(call) = function.instructions().find(inlinable) else {
            break;
        };
        let inlined = helpers::inline_call(call);
        any |= inlined;
        if !inlined {
            declined.insert(call);
        }
    }
    any
}
