//! Loops that a block leaves only by what other blocks write. A launch that runs few blocks at once, or a
//! slice, would wait in one without end.
//!
//! A loop is suspected if it reads what others may write meanwhile: by a volatile or atomic operation, in
//! assembly, or again and again in one place between fences. It is one if the read, or anything that may come
//! of it, decides when it ends: as a value, by a branch, or by way of memory. A compare-and-swap that is
//! tried again with what it has just read is none, since one that fails means that another has succeeded.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMIntPredicate, LLVMOpcode};
use petgraph::algo::{dominators, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};

use super::super::ir::*;
use super::super::redundancy::{Flow, base, reads_fixed, successors};

/// NVVM's address spaces of a block's shared memory, and of a thread's own.
const OF_BLOCK: [u32; 2] = [3, 5];

/// Whether a function has such a loop. One that calls itself counts as a loop.
pub fn waits_for_others(function: LLVMValueRef) -> bool {
    let mut seen = HashSet::new();
    let reads: HashSet<LLVMValueRef> = instructions(function)
        .into_iter()
        .filter(|&at| reads_others(at, &mut seen))
        .collect();
    if !reads.is_empty() && calls(function, function, &mut HashSet::new()) {
        return true;
    }
    let flow = Flow::of(function);
    loops(function).iter().any(|one| one.waits(&flow, &reads))
}

/// Whether one function may call another, in whatever way.
fn calls(from: LLVMValueRef, to: LLVMValueRef, seen: &mut HashSet<LLVMValueRef>) -> bool {
    let called = instructions(from)
        .into_iter()
        .filter(|&at| is_call(at))
        .filter_map(callee);
    called
        .collect::<HashSet<_>>()
        .into_iter()
        .any(|callee| callee == to || (seen.insert(callee) && calls(callee, to, seen)))
}

/// Whether a pointer leads to memory that no other block has.
fn is_own(pointer: LLVMValueRef) -> bool {
    let space = |pointer| llvm!(LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)));
    let base = base(pointer);
    !llvm!(LLVMIsAAllocaInst(base)).is_null()
        || OF_BLOCK.contains(&space(base))
        || OF_BLOCK.contains(&space(pointer))
}

/// Whether an instruction reads, in a way that sees it soon, what another block may write. `seen` has the
/// functions that were looked into.
fn reads_others(instruction: LLVMValueRef, seen: &mut HashSet<LLVMValueRef>) -> bool {
    let is_of_others = || !is_own(llvm!(LLVMGetOperand(instruction, 0)));
    match opcode(instruction) {
        LLVMOpcode::LLVMLoad => {
            let plain = LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic;
            let is_plain =
                llvm!(LLVMGetVolatile(instruction)) == 0 && llvm!(LLVMGetOrdering(instruction)) == plain;
            !is_plain && is_of_others()
        }
        LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => is_of_others(),
        LLVMOpcode::LLVMCall => {
            if let Some(text) = assembly_text(instruction) {
                const NOT_OF_OTHERS: [&str; 4] = ["ld.param", "ld.shared", "ld.local", "ld.const"];
                let reads = |word: &str| {
                    (word.starts_with("ld.") || word.starts_with("atom."))
                        && !NOT_OF_OTHERS.iter().any(|one| word.starts_with(one))
                        && !word.contains(".nc")
                };
                return assembly_words(&text).any(reads);
            }
            let Some(callee) = callee(instruction) else {
                return true;
            };
            if is_declaration(callee) {
                let name = name(callee);
                return name.starts_with("llvm.nvvm.atomic.") || !name.starts_with("llvm.");
            }
            // A function that is being looked into has been found out about by then.
            !seen.insert(callee)
                || instructions(callee)
                    .into_iter()
                    .any(|inside| reads_others(inside, seen))
        }
        _ => false,
    }
}

/// A loop of a function, with what is asked about it.
struct Loop {
    header: LLVMBasicBlockRef,
    members: HashSet<LLVMBasicBlockRef>,
    /// Where it goes back to its header.
    ends: Vec<LLVMBasicBlockRef>,
    /// Blocks that each turn goes through.
    always: HashSet<LLVMBasicBlockRef>,
    /// It has no header; each of its branches counts as an end of it.
    is_irreducible: bool,
}

impl Loop {
    fn has(&self, at: LLVMValueRef) -> bool {
        is_instruction(at) && self.members.contains(&llvm!(LLVMGetInstructionParent(at)))
    }

    fn instructions(&self) -> impl Iterator<Item = LLVMValueRef> {
        self.members.iter().copied().flat_map(block_instructions)
    }

    /// Whether what others write decides when it ends.
    fn waits(&self, flow: &Flow, reads: &HashSet<LLVMValueRef>) -> bool {
        let mut sources: Vec<LLVMValueRef> = reads.iter().copied().filter(|&at| self.has(at)).collect();
        if self.instructions().any(orders_memory) {
            sources.extend(self.instructions().filter(|&at| self.polls(at)));
        }
        if sources.is_empty()
            || (!self.is_irreducible && self.always.iter().any(|&block| self.retries(block)))
        {
            return false;
        }
        // What was read may have been kept anywhere.
        sources.extend(self.instructions().filter(|&at| may_find_anything(at)));
        let depend = self.depend_on(flow, sources);
        self.members.iter().any(|&block| {
            let leaves = successors(block)
                .into_iter()
                .any(|next| !self.members.contains(&next) && !fails(next));
            // A branch that depends on a value is a user of it.
            let end = llvm!(LLVMGetBasicBlockTerminator(block));
            depend.contains(&end) && (leaves || self.is_irreducible)
        })
    }

    /// Instructions of the loop that depend on others, also by branches.
    fn depend_on(&self, flow: &Flow, sources: Vec<LLVMValueRef>) -> HashSet<LLVMValueRef> {
        let mut depend: HashSet<LLVMValueRef> = sources.iter().copied().collect();
        let mut waiting = sources;
        while let Some(value) = waiting.pop() {
            let mut more: Vec<LLVMValueRef> =
                users(value).into_iter().filter(|&user| self.has(user)).collect();
            if !llvm!(LLVMIsATerminatorInst(value)).is_null() {
                let (region, meeting) = flow.region(llvm!(LLVMGetInstructionParent(value)));
                let joins = region.into_iter().chain(meeting).flat_map(block_instructions);
                more.extend(joins.filter(|&at| self.has(at) && opcode(at) == LLVMOpcode::LLVMPHI));
            }
            waiting.extend(more.into_iter().filter(|&one| depend.insert(one)));
        }
        depend
    }

    /// Whether a load looks at one place again and again.
    fn polls(&self, load: LLVMValueRef) -> bool {
        if opcode(load) != LLVMOpcode::LLVMLoad {
            return false;
        }
        let pointer = llvm!(LLVMGetOperand(load, 0));
        !is_own(pointer) && !self.has(pointer) && !reads_fixed(&mut HashMap::new(), load, pointer)
    }

    /// Whether a block leaves the loop once a compare-and-swap succeeds that expects what it has read the
    /// last time.
    fn retries(&self, block: LLVMBasicBlockRef) -> bool {
        let end = llvm!(LLVMGetBasicBlockTerminator(block));
        if opcode(end) != LLVMOpcode::LLVMBr || llvm!(LLVMIsConditional(end)) == 0 {
            return false;
        }
        let [yes, no] = successors(block)[..] else {
            return false;
        };
        let test = llvm!(LLVMGetCondition(end));
        let Some((exchange, when_true)) = success(test) else {
            return false;
        };
        let next = if when_true { yes } else { no };
        let expected = stripped(llvm!(LLVMGetOperand(exchange, 1)));
        let is_carried = is_instruction(expected)
            && opcode(expected) == LLVMOpcode::LLVMPHI
            && llvm!(LLVMGetInstructionParent(expected)) == self.header
            && self.ends.iter().all(|&end| {
                let found = incoming(expected, end).map(stripped);
                found.is_some_and(|found| exchanged(found) == Some(exchange))
            });
        self.has(exchange) && is_carried && !self.members.contains(&next)
    }
}

/// The compare-and-swap whose success a test tells, and which outcome says so.
fn success(test: LLVMValueRef) -> Option<(LLVMValueRef, bool)> {
    if !is_instruction(test) {
        return None;
    }
    match opcode(test) {
        LLVMOpcode::LLVMExtractValue => {
            let from = llvm!(LLVMGetOperand(test, 0));
            let is_flag = llvm!(LLVMGetNumIndices(test)) == 1 && llvm!(*LLVMGetIndices(test)) == 1;
            (is_flag && is_exchange(from)).then_some((from, true))
        }
        LLVMOpcode::LLVMICmp => {
            let when_true = match llvm!(LLVMGetICmpPredicate(test)) {
                LLVMIntPredicate::LLVMIntEQ => true,
                LLVMIntPredicate::LLVMIntNE => false,
                _ => return None,
            };
            let sides = [0, 1].map(|at| stripped(llvm!(LLVMGetOperand(test, at))));
            [(sides[0], sides[1]), (sides[1], sides[0])]
                .into_iter()
                .find_map(|(found, expected)| {
                    let exchange = exchanged(found)?;
                    let wanted = stripped(llvm!(LLVMGetOperand(exchange, 1)));
                    (wanted == expected).then_some((exchange, when_true))
                })
        }
        _ => None,
    }
}

/// The compare-and-swap that has read a value.
fn exchanged(value: LLVMValueRef) -> Option<LLVMValueRef> {
    if !is_instruction(value) || opcode(value) != LLVMOpcode::LLVMExtractValue {
        return None;
    }
    let from = llvm!(LLVMGetOperand(value, 0));
    let is_value = llvm!(LLVMGetNumIndices(value)) == 1 && llvm!(*LLVMGetIndices(value)) == 0;
    (is_value && is_exchange(from)).then_some(from)
}

fn is_exchange(value: LLVMValueRef) -> bool {
    is_instruction(value) && opcode(value) == LLVMOpcode::LLVMAtomicCmpXchg
}

/// A value without casts that keep its bits.
fn stripped(value: LLVMValueRef) -> LLVMValueRef {
    let mut at = value;
    while is_instruction(at) && opcode(at) == LLVMOpcode::LLVMBitCast {
        at = llvm!(LLVMGetOperand(at, 0));
    }
    at
}

/// What a phi gets from a block.
fn incoming(phi: LLVMValueRef, from: LLVMBasicBlockRef) -> Option<LLVMValueRef> {
    (0..llvm!(LLVMCountIncoming(phi)))
        .find(|&at| llvm!(LLVMGetIncomingBlock(phi, at)) == from)
        .map(|at| llvm!(LLVMGetIncomingValue(phi, at)))
}

/// Whether a loop with such an instruction looks at memory anew in each turn.
fn orders_memory(instruction: LLVMValueRef) -> bool {
    match opcode(instruction) {
        LLVMOpcode::LLVMFence | LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => true,
        LLVMOpcode::LLVMCall => callee(instruction).is_none_or(|callee| {
            const WAITS: [&str; 5] = ["barrier", "membar", "fence", "nanosleep", "bar."];
            let name = name(callee);
            name.strip_prefix("llvm.nvvm.")
                .map_or(!name.starts_with("llvm."), |name| {
                    WAITS.iter().any(|one| name.starts_with(one))
                })
        }),
        _ => false,
    }
}

/// Whether an instruction may find what was kept before: it reads memory that is not fixed, or asks the other
/// threads of its block.
fn may_find_anything(instruction: LLVMValueRef) -> bool {
    match opcode(instruction) {
        LLVMOpcode::LLVMLoad => {
            let pointer = llvm!(LLVMGetOperand(instruction, 0));
            !reads_fixed(&mut HashMap::new(), instruction, pointer)
        }
        LLVMOpcode::LLVMCall => callee(instruction).is_none_or(|callee| {
            const ASKS: [&str; 5] = ["barrier", "shfl.", "vote.", "match.", "redux."];
            let name = name(callee);
            name.strip_prefix("llvm.nvvm.")
                .map_or(!name.starts_with("llvm."), |name| {
                    ASKS.iter().any(|one| name.starts_with(one))
                })
        }),
        LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => true,
        _ => false,
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
        let mut waiting = ends.clone();
        while let Some(block) = waiting.pop() {
            if members.insert(block) {
                waiting.extend(before.get(&block).into_iter().flatten());
            }
        }
        let is_always = |block: &&LLVMBasicBlockRef| ends.iter().all(|&end| dominates(**block, end));
        found.push(Loop {
            header,
            always: members.iter().filter(is_always).copied().collect(),
            members,
            ends,
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
            header: *entry,
            members,
            ends: Vec::new(),
            always: HashSet::new(),
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
