//! Shared memory: one block per thread block, at an address that its threads find in their state.
//!
//! Variables that only one kernel reaches overlap those that only another one does; so a kernel needs no more
//! shared memory than on a GPU, however many kernels its source has.
use std::collections::HashMap;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::callgraph::Reach;
use super::ir::*;
use super::layout::{Layout, align_up};
use super::variables;

/// NVVM's address space of shared memory.
const SHARED: u32 = 3;

/// Where `softgpu_thread` keeps the address of static and of dynamic shared memory.
const STATIC_AT: u64 = 56;
const DYNAMIC_AT: u64 = 64;

/// Replaces every shared variable by its place; returns the static bytes of each kernel.
pub fn place(module: LLVMModuleRef, kernels: &[Reach]) -> Vec<u64> {
    let layout = Layout::of(module);
    let all: Vec<_> = globals(module)
        .into_iter()
        .filter(|&global| address_space(global) == SHARED)
        .collect();
    // `extern __shared__` arrays all start where the launch's dynamic shared memory starts.
    let (dynamic, fixed): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|&global| is_declaration(global) || layout.size(value_type(global)) == 0);
    let users: HashMap<_, Vec<usize>> = fixed
        .iter()
        .map(|&global| {
            let of = kernels
                .iter()
                .enumerate()
                .filter(|(_, reach)| reach.globals.contains(&global));
            (global, of.map(|(at, _)| at).collect())
        })
        .collect();

    let mut offsets = HashMap::new();
    let mut put = |global: LLVMValueRef, end: &mut u64| {
        let at = align_up(*end, layout.align_of_global(global));
        offsets.insert(global, at);
        *end = at + layout.size(value_type(global));
    };
    let mut common = 0;
    for &global in fixed.iter().filter(|global| users[*global].len() != 1) {
        put(global, &mut common);
    }
    let mut bytes: Vec<u64> = vec![0; kernels.len()];
    for (at, reach) in kernels.iter().enumerate() {
        let touches_common = reach
            .globals
            .iter()
            .any(|global| users.get(global).is_some_and(|of| of.len() != 1));
        let mut end = common;
        for &global in fixed.iter().filter(|global| users[*global] == [at]) {
            put(global, &mut end);
        }
        bytes[at] = if end > common || touches_common { end } else { 0 };
    }

    for global in fixed {
        replace(module, global, STATIC_AT, offsets[&global]);
    }
    for global in dynamic {
        replace(module, global, DYNAMIC_AT, 0);
    }
    bytes
}

/// Replaces one variable by an offset from a pointer of the thread's state.
fn replace(module: LLVMModuleRef, global: LLVMValueRef, pointer_at: u64, offset: u64) {
    let shared = llvm!(LLVMGetNamedFunction(module, c"softgpu.shared".as_ptr()));
    let i64 = llvm!(LLVMInt64TypeInContext(LLVMGetModuleContext(module)));
    let which = llvm!(LLVMConstInt(i64, pointer_at, 0));
    variables::replace_uses(global, |builder| {
        let base = builder.call(shared, &mut [which]);
        builder.byte_offset(base, offset)
    });
    if users(global).is_empty() {
        llvm!(LLVMDeleteGlobal(global));
    }
}
