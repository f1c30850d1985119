//! Shared memory: one block per thread block, at an address that its threads find in their state.
//!
//! Variables that only one kernel reaches overlap those that only another one does; so a kernel needs no more
//! shared memory than on a GPU, however many kernels its source has.
use std::collections::{BTreeSet, HashMap, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::callgraph::Reach;
use super::ir::*;
use super::kernel::original_of;
use super::layout::{Layout, align_up};
use super::variables;

/// NVVM's address space of shared memory.
const SHARED: u32 = 3;

/// Where `softgpu_thread` keeps the address of static and of dynamic shared memory.
const STATIC_AT: u64 = 56;
const DYNAMIC_AT: u64 = 64;

/// Replaces every shared variable by its place; returns the static bytes of each kernel, whose names are
/// given. A kernel and its twin have the same variables in the same places.
pub fn place(module: LLVMModuleRef, kernels: &[Reach], names: &[&str]) -> Vec<u64> {
    let layout = Layout::of(module);
    let all: Vec<_> = globals(module)
        .into_iter()
        .filter(|&global| address_space(global) == SHARED)
        .collect();
    // `extern __shared__` arrays all start where the launch's dynamic shared memory starts.
    let (dynamic, fixed): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|&global| is_declaration(global) || layout.size(value_type(global)) == 0);
    let users: HashMap<_, BTreeSet<&str>> = fixed
        .iter()
        .map(|&global| {
            let of = kernels.iter().zip(names);
            let of = of.filter(|(reach, _)| reach.globals.contains(&global));
            (global, of.map(|(_, name)| original_of(name)).collect())
        })
        .collect();
    let is_common = |global: &LLVMValueRef| users.get(global).is_some_and(|of| of.len() != 1);

    let mut offsets = HashMap::new();
    let mut put = |global: LLVMValueRef, end: u64| {
        let at = align_up(end, layout.align_of_global(global));
        offsets.insert(global, at);
        at + layout.size(value_type(global))
    };
    let common = fixed
        .iter()
        .filter(|&global| is_common(global))
        .fold(0, |end, &global| put(global, end));
    // A kernel first: its twin has a variable more.
    let mut order: Vec<usize> = (0..kernels.len()).collect();
    order.sort_by_key(|&at| names[at] != original_of(names[at]));
    let mut ends: HashMap<&str, u64> = HashMap::new();
    let mut bytes: Vec<u64> = vec![0; kernels.len()];
    let mut placed = HashSet::new();
    for at in order {
        let reach = &kernels[at];
        let end = ends.entry(original_of(names[at])).or_insert(common);
        for &global in fixed.iter().filter(|global| reach.globals.contains(*global)) {
            if !is_common(&global) && placed.insert(global) {
                *end = put(global, *end);
            }
        }
        let touches_common = reach.globals.iter().any(is_common);
        bytes[at] = if *end > common || touches_common { *end } else { 0 };
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
