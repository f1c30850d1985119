//! Memory: which variable or allocation an address points into, and whether a function is the only one that
//! uses it.
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};

use super::Value;
use super::cfg::Cfg;
use super::helpers;

/// The variable or other base that an address is computed from, and the offset if it is constant.
pub fn address(pointer: Value) -> (Value, Option<i64>) {
    let (base, offset) = helpers::base_and_offset(pointer);
    if base.is(LLVMOpcode::LLVMGetElementPtr) {
        return (address(base.operand(0)).0, None);
    }
    (base, Some(offset))
}

/// Allocators of host memory: `malloc`, `calloc`, and C++ `new`.
const HOST_ALLOCATORS: [&str; 4] = ["malloc", "calloc", "_Znwm", "_Znam"];

/// Whether a call frees host memory: `free`, and every form of C++ `delete`.
pub fn frees_host_memory(call: Value) -> bool {
    let name = call.callee().map(|callee| callee.name());
    name.is_some_and(|name| name == "free" || name.starts_with("_Zdl") || name.starts_with("_Zda"))
}

/// Whether a function is LLVM's copy of bytes from its second argument to its first.
pub fn copies_host_memory(function: Value) -> bool {
    let name = function.name();
    name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.")
}

/// Whether a pointer is known to be into host memory.
pub fn is_host_memory(pointer: Value) -> bool {
    let (base, _) = address(pointer);
    let callee = base.callee().map(|callee| callee.name());
    base.is(LLVMOpcode::LLVMAlloca) || callee.is_some_and(|name| HOST_ALLOCATORS.contains(&name.as_str()))
}

/// Whether the memory behind this value is there once for the function, and all that is done to it can be
/// seen in it: an alloca; what an allocator gives outside of loops; in `main`, a global that no other code
/// uses and that starts as zero.
pub fn is_own(cfg: &Cfg, base: Value) -> bool {
    if base.is(LLVMOpcode::LLVMAlloca) {
        return true;
    }
    if base.is_call() {
        let block = cfg.point(base).block;
        return is_host_memory(base) && cfg.loops_around(block).next().is_none();
    }
    base.is_variable() && runs_once(cfg.function) && is_used_only_in(cfg, base)
}

/// Whether a process runs a function once and before all others.
fn runs_once(function: Value) -> bool {
    function.name() == "main" && !function.has_uses()
}

/// Whether a global starts as zero, and all its uses while `main` runs are in one function. A function that
/// nothing here calls or refers to runs only where another file calls it.
fn is_used_only_in(cfg: &Cfg, global: Value) -> bool {
    let is_elsewhere = |function: Value| !function.has_uses() && cfg.is_alone();
    is_kept_here(global, || cfg.is_alone())
        && users_of_global(global).is_some_and(|users| {
            let mut functions = users.into_iter().map(|user| user.block().function());
            functions.all(|function| function == cfg.function || is_elsewhere(function))
        })
}

/// Whether a global is this module's alone and starts as zero.
pub fn is_private(global: Value) -> bool {
    is_kept_here(global, || false)
}

/// Whether a global starts as zero, and is this module's alone, or in a program without other files' code.
pub fn is_kept_here(global: Value, is_alone: impl FnOnce() -> bool) -> bool {
    let is_meant = || match global.linkage() {
        LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage => true,
        LLVMLinkage::LLVMExternalLinkage => !global.is_declaration() && is_alone(),
        _ => false,
    };
    global.is_variable() && global.starts_as_zero() && is_meant()
}

/// The instructions that use a global, or an address in it; none where another global has its address.
pub fn users_of_global(global: Value) -> Option<Vec<Value>> {
    let mut users = Vec::new();
    let mut addresses = vec![global];
    while let Some(address) = addresses.pop() {
        for user in address.users() {
            match user {
                user if user.is_instruction() => users.push(user),
                user if user.is_global() => return None,
                user => addresses.push(user),
            }
        }
    }
    Some(users)
}
