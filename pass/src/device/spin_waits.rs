//! Finds where threads may wait for memory to change, and lets others run there.
//!
//! Threads and blocks share the few cores of the host, and give a core up only by themselves. A loop can wait
//! for another thread only by reads that the compiler must not remove: volatile and atomic ones, and fences.
//! Each of those in a loop is followed by a call of `softgpu.poll`.
use std::collections::HashMap;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMOpcode, LLVMTypeKind};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use super::ir::*;
use super::layout::Layout;

/// Adds polls to every function of the device code.
pub fn insert(module: LLVMModuleRef) {
    let poll = llvm!(LLVMGetNamedFunction(module, c"softgpu.poll".as_ptr()));
    if poll.is_null() {
        return;
    }
    let layout = Layout::of(module);
    for function in defined_functions(module) {
        let ours = string_attribute(function, "softgpu-runtime").is_some();
        if ours || !instructions(function).into_iter().any(looks) {
            continue;
        }
        for members in loops(function) {
            let all: Vec<_> = members
                .into_iter()
                .flat_map(block_instructions)
                .filter(|&at| looks(at))
                .collect();
            let fence = |at: &LLVMValueRef| opcode(*at) == LLVMOpcode::LLVMFence;
            // Beside a read, a fence would count as a read of another address.
            let reads = !all.iter().all(fence);
            for instruction in all.into_iter().filter(|at| !(reads && fence(at))) {
                follow(layout, poll, instruction);
            }
        }
    }
}

/// Whether an instruction reads what other threads write.
fn looks(instruction: LLVMValueRef) -> bool {
    match opcode(instruction) {
        LLVMOpcode::LLVMLoad => {
            llvm!(LLVMGetVolatile(instruction)) != 0
                || llvm!(LLVMGetOrdering(instruction)) != LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
        }
        LLVMOpcode::LLVMAtomicCmpXchg => true,
        // If the result is unused, it only writes.
        LLVMOpcode::LLVMAtomicRMW => !users(instruction).is_empty(),
        LLVMOpcode::LLVMFence => llvm!(LLVMIsAtomicSingleThread(instruction)) == 0,
        _ => false,
    }
}

/// The outermost loops of a function: the blocks of each.
fn loops(function: LLVMValueRef) -> Vec<Vec<LLVMBasicBlockRef>> {
    let mut graph = DiGraph::new();
    let nodes: HashMap<_, _> = blocks(function)
        .into_iter()
        .map(|block| (block, graph.add_node(block)))
        .collect();
    for (&block, &node) in &nodes {
        let end = llvm!(LLVMGetBasicBlockTerminator(block));
        for at in 0..llvm!(LLVMGetNumSuccessors(end)) {
            graph.add_edge(node, nodes[&llvm!(LLVMGetSuccessor(end, at))], ());
        }
    }
    let loops = tarjan_scc(&graph).into_iter();
    let loops = loops.filter(|members| members.len() > 1 || graph.contains_edge(members[0], members[0]));
    loops
        .map(|members| members.into_iter().map(|node| graph[node]).collect())
        .collect()
}

/// Puts a poll behind an instruction.
fn follow(layout: Layout, poll: LLVMValueRef, instruction: LLVMValueRef) {
    let context = llvm!(LLVMGetTypeContext(LLVMTypeOf(poll)));
    let i64 = llvm!(LLVMInt64TypeInContext(context));
    let pointer = llvm!(LLVMPointerTypeInContext(context, 0));
    let builder = Builder::before(llvm!(LLVMGetNextInstruction(instruction)));
    let raw = builder.raw();
    let seen = match opcode(instruction) {
        LLVMOpcode::LLVMFence => None,
        LLVMOpcode::LLVMAtomicCmpXchg => {
            Some(llvm!(LLVMBuildExtractValue(raw, instruction, 0, c"".as_ptr())))
        }
        _ => Some(instruction),
    };
    let Some(seen) = seen else {
        builder.call(
            poll,
            &mut [llvm!(LLVMConstNull(pointer)), llvm!(LLVMConstNull(i64))],
        );
        return;
    };
    let place = llvm!(LLVMGetOperand(instruction, 0));
    let place = if llvm!(LLVMTypeOf(place)) == pointer {
        place
    } else {
        llvm!(LLVMBuildAddrSpaceCast(raw, place, pointer, c"".as_ptr()))
    };
    let ty = llvm!(LLVMTypeOf(seen));
    let bits = 8 * layout.size(ty) as u32;
    let integer = llvm!(LLVMIntTypeInContext(context, bits));
    let whole = match kind(ty) {
        LLVMTypeKind::LLVMPointerTypeKind => llvm!(LLVMBuildPtrToInt(raw, seen, integer, c"".as_ptr())),
        LLVMTypeKind::LLVMIntegerTypeKind => llvm!(LLVMBuildZExtOrBitCast(raw, seen, integer, c"".as_ptr())),
        _ => llvm!(LLVMBuildBitCast(raw, seen, integer, c"".as_ptr())),
    };
    let mut value = llvm!(LLVMBuildIntCast2(raw, whole, i64, 0, c"".as_ptr()));
    if bits > 64 {
        let by = llvm!(LLVMConstInt(integer, 64, 0));
        let high = llvm!(LLVMBuildLShr(raw, whole, by, c"".as_ptr()));
        let high = llvm!(LLVMBuildTrunc(raw, high, i64, c"".as_ptr()));
        value = llvm!(LLVMBuildXor(raw, value, high, c"".as_ptr()));
    }
    builder.call(poll, &mut [place, value]);
}
