//! Loops that a block leaves only by what other blocks write. A launch that runs few blocks at once, or a
//! slice, would wait in one without end.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use petgraph::algo::{dominators, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};

use super::super::ir::*;
use super::super::redundancy::{base, successors};

/// NVVM's address spaces of a block's shared memory, and of a thread's own.
const OF_BLOCK: [u32; 2] = [3, 5];

/// Whether a function has such a loop.
pub fn waits_for_others(function: LLVMValueRef) -> bool {
    let reads: HashSet<LLVMValueRef> = instructions(function)
        .into_iter()
        .filter(|&at| reads_others(at, &mut HashSet::from([function])))
        .collect();
    !reads.is_empty() && loops(function).iter().any(|one| one.waits_for(&reads))
}

/// Whether an instruction may read what another block has just written.
fn reads_others(instruction: LLVMValueRef, seen: &mut HashSet<LLVMValueRef>) -> bool {
    let is_of_others = || {
        let pointer = llvm!(LLVMGetOperand(instruction, 0));
        let base = base(pointer);
        let space = |pointer| llvm!(LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)));
        let is_local = !llvm!(LLVMIsAAllocaInst(base)).is_null();
        !is_local && !OF_BLOCK.contains(&space(base)) && !OF_BLOCK.contains(&space(pointer))
    };
    match opcode(instruction) {
        LLVMOpcode::LLVMLoad => {
            let is_plain = llvm!(LLVMGetVolatile(instruction)) == 0
                && llvm!(LLVMGetOrdering(instruction))
                    == inkwell::llvm_sys::LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic;
            !is_plain && is_of_others()
        }
        LLVMOpcode::LLVMAtomicRMW => is_of_others(),
        // One that expects what the thread has read before succeeds at last, whatever others do. One that
        // expects a constant waits for somebody to write it.
        LLVMOpcode::LLVMAtomicCmpXchg => {
            let expected = llvm!(LLVMGetOperand(instruction, 1));
            llvm!(LLVMIsConstant(expected)) != 0 && is_of_others()
        }
        LLVMOpcode::LLVMCall => {
            if let Some(text) = assembly_text(instruction) {
                const READS: [&str; 4] = ["ld.volatile", "ld.acquire", "ld.relaxed", "atom."];
                return assembly_words(&text).any(|word| READS.iter().any(|one| word.starts_with(one)));
            }
            let Some(callee) = callee(instruction) else {
                return true;
            };
            seen.insert(callee)
                && instructions(callee)
                    .into_iter()
                    .any(|inside| reads_others(inside, seen))
        }
        _ => false,
    }
}

/// A loop, and whether each of its branches counts as an end of it.
struct Loop {
    members: HashSet<LLVMBasicBlockRef>,
    is_irreducible: bool,
}

impl Loop {
    /// Whether one of these reads, inside the loop, decides when it ends.
    fn waits_for(&self, reads: &HashSet<LLVMValueRef>) -> bool {
        let is_inside = |at: LLVMValueRef| {
            is_instruction(at) && self.members.contains(&llvm!(LLVMGetInstructionParent(at)))
        };
        let mut depend: HashSet<LLVMValueRef> = reads.iter().copied().filter(|&at| is_inside(at)).collect();
        let mut waiting: Vec<LLVMValueRef> = depend.iter().copied().collect();
        while let Some(value) = waiting.pop() {
            let more = users(value).into_iter().filter(|&user| is_inside(user));
            waiting.extend(more.filter(|&user| depend.insert(user)));
        }
        self.members.iter().any(|&block| {
            let end = llvm!(LLVMGetBasicBlockTerminator(block));
            let leaves = successors(block)
                .into_iter()
                .any(|next| !self.members.contains(&next) && !fails(next));
            // A branch that depends on a value is a user of it.
            depend.contains(&end) && (leaves || self.is_irreducible)
        })
    }
}

/// Whether a block ends in nothing that goes on: behind a trap, say.
fn fails(block: LLVMBasicBlockRef) -> bool {
    opcode(llvm!(LLVMGetBasicBlockTerminator(block))) == LLVMOpcode::LLVMUnreachable
}

/// The loops of a function, inner ones too.
fn loops(function: LLVMValueRef) -> Vec<Loop> {
    let all = blocks(function);
    let mut graph = DiGraph::<LLVMBasicBlockRef, ()>::new();
    let nodes: HashMap<LLVMBasicBlockRef, NodeIndex> =
        all.iter().map(|&block| (block, graph.add_node(block))).collect();
    let mut before: HashMap<LLVMBasicBlockRef, Vec<LLVMBasicBlockRef>> = HashMap::new();
    for &block in &all {
        for next in successors(block) {
            graph.add_edge(nodes[&block], nodes[&next], ());
            before.entry(next).or_default().push(block);
        }
    }
    let Some(entry) = all.first() else {
        return Vec::new();
    };
    let tree = dominators::simple_fast(&graph, nodes[entry]);
    let dominates = |header: LLVMBasicBlockRef, block: LLVMBasicBlockRef| {
        tree.dominators(nodes[&block])
            .is_some_and(|mut above| above.any(|at| at == nodes[&header]))
    };
    let mut found = Vec::new();
    for &header in &all {
        let ends: Vec<LLVMBasicBlockRef> = before
            .get(&header)
            .into_iter()
            .flatten()
            .copied()
            .filter(|&end| dominates(header, end))
            .collect();
        if ends.is_empty() {
            continue;
        }
        let mut members = HashSet::from([header]);
        let mut waiting = ends;
        while let Some(block) = waiting.pop() {
            if members.insert(block) {
                waiting.extend(before.get(&block).into_iter().flatten());
            }
        }
        found.push(Loop {
            members,
            is_irreducible: false,
        });
    }
    // What goes round without a header: the edges back to headers left out, a cycle is left.
    let mut rest = graph.clone();
    rest.retain_edges(|rest, edge| {
        let (from, to) = rest.edge_endpoints(edge).expect("it is an edge of it");
        !dominates(rest[to], rest[from])
    });
    for cycle in tarjan_scc(&rest).into_iter().filter(|cycle| cycle.len() > 1) {
        let members: HashSet<LLVMBasicBlockRef> = cycle.into_iter().map(|node| rest[node]).collect();
        found.push(Loop {
            members,
            is_irreducible: true,
        });
    }
    found
}

/// The words of assembly that may be instructions.
pub fn assembly_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '}' | ':' | ','))
        .filter(|word| !word.is_empty())
}
