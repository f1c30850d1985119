//! Wraps distances within shared and local memory at 32 bits, like the addresses of a GPU there.
//!
//! `p[~i]` with an unsigned `i` is 16 GiB past `p` in C++. Where a compiler for the GPU knows that `p` is in
//! shared memory, the address has 32 bits, and the element is the one `i + 1` before `p`: programs rely on
//! it. So addresses that are computed from a shared or local variable alone, within one function, use 32-bit
//! indices here too. In-bounds accesses are unaffected, for no block has 2 GiB of these.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode::*;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;

/// Wraps the indices of every address that comes from a shared or local variable.
pub fn indices(module: LLVMModuleRef) {
    let shared = llvm!(LLVMGetNamedFunction(module, c"softgpu.shared".as_ptr()));
    for function in defined_functions(module) {
        if string_attribute(function, "softgpu-runtime").is_some() {
            continue;
        }
        let is_root = |&at: &LLVMValueRef| {
            opcode(at) == LLVMAlloca || is_call(at) && !shared.is_null() && callee(at) == Some(shared)
        };
        let roots: Vec<_> = instructions(function).into_iter().filter(is_root).collect();
        for address in derived(&roots) {
            if opcode(address) == LLVMGetElementPtr {
                wrap(address);
            }
        }
    }
}

/// The addresses computed from the roots, and from nothing else.
fn derived(roots: &[LLVMValueRef]) -> HashSet<LLVMValueRef> {
    let mut found: HashSet<_> = roots.iter().copied().collect();
    let mut open = roots.to_vec();
    while let Some(from) = open.pop() {
        let next = users(from)
            .into_iter()
            .filter(|&at| is_instruction(at) && bases(at).contains(&from));
        open.extend(next.filter(|&at| found.insert(at)));
    }
    // A choice between such an address and another is a generic address, and so is what is computed from it.
    loop {
        let mixed = |&&at: &&LLVMValueRef| bases(at).iter().any(|base| !found.contains(base));
        let generic: Vec<_> = found.iter().filter(mixed).copied().collect();
        if generic.is_empty() {
            return found;
        }
        generic.iter().for_each(|at| {
            found.remove(at);
        });
    }
}

/// The addresses that an instruction makes its own address of.
fn bases(instruction: LLVMValueRef) -> Vec<LLVMValueRef> {
    match opcode(instruction) {
        LLVMGetElementPtr | LLVMAddrSpaceCast => operands(instruction).into_iter().take(1).collect(),
        LLVMSelect => operands(instruction).into_iter().skip(1).collect(),
        LLVMPHI => operands(instruction),
        _ => Vec::new(),
    }
}

/// Makes the 64-bit indices of an address computation signed 32-bit ones.
fn wrap(address: LLVMValueRef) {
    let context = llvm!(LLVMGetTypeContext(LLVMTypeOf(address)));
    let (narrow, wide) = (
        llvm!(LLVMInt32TypeInContext(context)),
        llvm!(LLVMInt64TypeInContext(context)),
    );
    let mut changed = false;
    for (at, index) in operands(address).into_iter().enumerate().skip(1) {
        if llvm!(LLVMTypeOf(index)) != wide || fits(index) {
            continue;
        }
        let builder = Builder::before(address);
        let low = llvm!(LLVMBuildTrunc(builder.raw(), index, narrow, c"".as_ptr()));
        let signed = llvm!(LLVMBuildSExt(builder.raw(), low, wide, c"".as_ptr()));
        llvm!(LLVMSetOperand(address, at as u32, signed));
        changed = true;
    }
    if changed {
        // What did not wrap before may do so now.
        llvm!(LLVMGEPSetNoWrapFlags(address, 0));
    }
}

/// Whether an index is seen to be a signed 32-bit one as it is.
fn fits(index: LLVMValueRef) -> bool {
    if !llvm!(LLVMIsAConstantInt(index)).is_null() {
        return i32::try_from(llvm!(LLVMConstIntGetSExtValue(index))).is_ok();
    }
    if !is_instruction(index) {
        return false;
    }
    let bits = || llvm!(LLVMGetIntTypeWidth(LLVMTypeOf(operands(index)[0])));
    match opcode(index) {
        LLVMSExt => bits() <= 32,
        LLVMZExt => bits() < 32 || bits() == 32 && llvm!(LLVMGetNNeg(index)) != 0,
        _ => false,
    }
}
