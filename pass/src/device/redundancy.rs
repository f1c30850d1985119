//! Which values of a kernel are the same for all threads of a block, or of a warp, and where such threads may
//! be apart.
//!
//! All values count as the same for the block at first. What may differ is then spread along operands and
//! branches until no more is found: a thread's own register differs, a value computed from one that differs
//! does, and so does one that a branch on it chooses. LLVM's own analysis does not serve: it asks for the
//! same value in a warp, and calls even the block's index different.
//!
//! From a branch on a value that differs up to the block that all its paths lead through (its immediate
//! postdominator), threads may be in different places: they are *apart*. A value from there differs for
//! whoever uses it elsewhere, since threads may leave a loop after different numbers of turns.
//!
//! What is the same for a warp is so where rows of threads are whole warps: a block's width is a multiple of
//! 32, or it has one row.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};
use petgraph::algo::dominators;
use petgraph::graph::{DiGraph, NodeIndex};

use super::ir::*;

/// Special registers that all threads of a block read the same from.
const OF_BLOCK: [&str; 7] = [
    "ntid.",
    "ctaid.",
    "nctaid.",
    "cluster.",
    "warpsize",
    "gridid",
    "dynamic.smem.size",
];
/// Those that all lanes of a warp read the same from.
const OF_WARP: [&str; 3] = ["tid.y", "tid.z", "warpid"];
/// What lanes of a warp find out together, and which operand has the mask of those that do.
const BY_WARP: [(&str, u32); 3] = [("vote.", 0), ("match.all.", 0), ("redux.sync.", 1)];

/// NVVM's address space of memory that no kernel writes.
const CONSTANT: u32 = 4;
const LANES: u64 = 32;

/// For whom a value is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SameFor {
    /// All threads of a block.
    #[default]
    Block,
    /// The lanes of a warp, where rows are whole warps.
    Warp,
    /// Nobody but the thread itself.
    Thread,
}

/// What was found out about one kernel.
pub struct Redundancy {
    values: HashMap<LLVMValueRef, SameFor>,
    apart: HashMap<LLVMBasicBlockRef, SameFor>,
    may_follow_exit: HashMap<LLVMBasicBlockRef, SameFor>,
}

impl Redundancy {
    /// Follows the values of a kernel, whose parameters are the same for all its threads.
    pub fn of(kernel: LLVMValueRef) -> Self {
        let flow = Flow::of(kernel);
        let mut found = Self {
            values: HashMap::new(),
            apart: HashMap::new(),
            may_follow_exit: HashMap::new(),
        };
        let mut read_only = HashMap::new();
        let mut branched = HashMap::new();
        loop {
            let mut is_done = true;
            for instruction in instructions(kernel) {
                let same = found.computed(&mut read_only, instruction);
                is_done &= !raise(&mut found.values, instruction, same);
            }
            for block in blocks(kernel) {
                let same = found.condition(block);
                if raise(&mut branched, block, same) {
                    found.branch(&flow, block, same);
                    is_done = false;
                }
            }
            if is_done {
                return found;
            }
        }
    }

    /// For whom a value is the same that threads compute at this place.
    fn same(&self, value: LLVMValueRef) -> SameFor {
        // Each use of a value that is not defined may see another one.
        if llvm!(LLVMIsUndef(value)) != 0 || llvm!(LLVMIsPoison(value)) != 0 {
            return SameFor::Thread;
        }
        self.values.get(&value).copied().unwrap_or_default()
    }

    /// Whether some threads of a block may be here while others are elsewhere: if not, for the block; if
    /// whole warps may be, for the warp.
    pub fn apart(&self, block: LLVMBasicBlockRef) -> SameFor {
        self.apart.get(&block).copied().unwrap_or_default()
    }

    /// Whether threads may be here that wait for nobody who has returned already: by whole warps, or not at
    /// all.
    pub fn follows_exit(&self, block: LLVMBasicBlockRef) -> SameFor {
        self.may_follow_exit.get(&block).copied().unwrap_or_default()
    }

    /// For whom the way from the end of a block is the same.
    fn condition(&self, block: LLVMBasicBlockRef) -> SameFor {
        let end = llvm!(LLVMGetBasicBlockTerminator(block));
        match opcode(end) {
            LLVMOpcode::LLVMBr if llvm!(LLVMIsConditional(end)) == 0 => SameFor::Block,
            LLVMOpcode::LLVMBr => self.same(llvm!(LLVMGetCondition(end))),
            LLVMOpcode::LLVMSwitch => self.same(llvm!(LLVMGetOperand(end, 0))),
            LLVMOpcode::LLVMRet | LLVMOpcode::LLVMUnreachable => SameFor::Block,
            _ => SameFor::Thread,
        }
    }

    /// Threads may go different ways at the end of this block.
    fn branch(&mut self, flow: &Flow, block: LLVMBasicBlockRef, same: SameFor) {
        let (region, meeting) = flow.region(block);
        let joins = region.iter().copied().chain(meeting);
        for phi in joins.flat_map(block_instructions).filter(|&at| is_phi(at)) {
            raise(&mut self.values, phi, same);
        }
        for value in region.iter().copied().flat_map(block_instructions) {
            let is_elsewhere = |user: LLVMValueRef| {
                is_instruction(user) && !region.contains(&llvm!(LLVMGetInstructionParent(user)))
            };
            if users(value).into_iter().any(is_elsewhere) {
                raise(&mut self.values, value, same);
            }
        }
        // Whoever goes past the region waits for the others at the first barrier behind it, if there is one
        // before it returns. A barrier in the region may be one that the others have passed already.
        let may_return = meeting.is_none_or(|meeting| flow.returns_freely.contains(&meeting));
        for block in region {
            raise(&mut self.apart, block, same);
            if may_return {
                raise(&mut self.may_follow_exit, block, same);
            }
        }
    }

    /// For whom an instruction makes the same value, as far as its operands show.
    fn computed(&self, read_only: &mut HashMap<LLVMValueRef, bool>, instruction: LLVMValueRef) -> SameFor {
        let operand = |at| llvm!(LLVMGetOperand(instruction, at));
        let from_operands = || {
            let mut all = operands(instruction);
            if is_call(instruction) {
                all.pop();
            }
            let all = all.into_iter().map(|operand| self.same(operand));
            all.max().unwrap_or_default()
        };
        match opcode(instruction) {
            LLVMOpcode::LLVMLoad if reads_fixed(read_only, instruction, operand(0)) => from_operands(),
            LLVMOpcode::LLVMCall => match call(instruction) {
                CallValue::Same(same) => same,
                CallValue::OfOperands => from_operands(),
            },
            LLVMOpcode::LLVMLoad
            | LLVMOpcode::LLVMAlloca
            | LLVMOpcode::LLVMAtomicRMW
            | LLVMOpcode::LLVMAtomicCmpXchg
            | LLVMOpcode::LLVMVAArg => SameFor::Thread,
            _ if tells_warps_apart(instruction) => SameFor::Warp,
            _ => from_operands(),
        }
    }
}

/// Raises what is known of a key; whether it was less.
fn raise<Key: std::hash::Hash + Eq>(all: &mut HashMap<Key, SameFor>, key: Key, same: SameFor) -> bool {
    if same == SameFor::Block {
        return false;
    }
    let known = all.entry(key).or_default();
    let is_more = same > *known;
    *known = same.max(*known);
    is_more
}

/// Whether an instruction takes no more of `threadIdx.x` than which warp of its row a thread is in.
fn tells_warps_apart(instruction: LLVMValueRef) -> bool {
    let operand = |at| llvm!(LLVMGetOperand(instruction, at));
    let is_column = |value: LLVMValueRef| {
        is_instruction(value)
            && is_call(value)
            && callee(value).is_some_and(|callee| name(callee) == "llvm.nvvm.read.ptx.sreg.tid.x")
    };
    let constant = |value: LLVMValueRef| {
        let is_constant = !llvm!(LLVMIsAConstantInt(value)).is_null();
        is_constant.then(|| llvm!(LLVMConstIntGetZExtValue(value)))
    };
    if operands(instruction).len() < 2 || !is_column(operand(0)) {
        return false;
    }
    let Some(by) = constant(operand(1)) else {
        return false;
    };
    match opcode(instruction) {
        LLVMOpcode::LLVMLShr | LLVMOpcode::LLVMAShr => by >= u64::from(LANES.ilog2()),
        LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMSDiv => by > 0 && by % LANES == 0,
        LLVMOpcode::LLVMAnd => by % LANES == 0,
        LLVMOpcode::LLVMICmp => match llvm!(LLVMGetICmpPredicate(instruction)) {
            // A column is below 1024, whether it is taken for signed or not.
            LLVMIntPredicate::LLVMIntULT
            | LLVMIntPredicate::LLVMIntSLT
            | LLVMIntPredicate::LLVMIntUGE
            | LLVMIntPredicate::LLVMIntSGE => by % LANES == 0,
            LLVMIntPredicate::LLVMIntUGT
            | LLVMIntPredicate::LLVMIntSGT
            | LLVMIntPredicate::LLVMIntULE
            | LLVMIntPredicate::LLVMIntSLE => by % LANES == LANES - 1,
            _ => false,
        },
        _ => false,
    }
}

/// How the result of a call comes about.
enum CallValue {
    Same(SameFor),
    OfOperands,
}

fn call(instruction: LLVMValueRef) -> CallValue {
    let Some(callee) = callee(instruction) else {
        return CallValue::Same(SameFor::Thread);
    };
    let name = name(callee);
    let begins = |text: &str, all: &[&str]| all.iter().any(|one| text.starts_with(one));
    if let Some(register) = name.strip_prefix("llvm.nvvm.read.ptx.sreg.") {
        return CallValue::Same(match register {
            _ if begins(register, &OF_BLOCK) => SameFor::Block,
            _ if begins(register, &OF_WARP) => SameFor::Warp,
            _ => SameFor::Thread,
        });
    }
    // All threads that have not ended are asked, and all get the answer.
    if name.starts_with("llvm.nvvm.barrier.cta.red.") && name.ends_with(".all") {
        return CallValue::Same(SameFor::Block);
    }
    let by_warp = BY_WARP.iter().find(|(one, _)| {
        name.strip_prefix("llvm.nvvm.")
            .is_some_and(|name| name.starts_with(one))
    });
    if let Some((_, mask)) = by_warp {
        // Lanes that others' masks name get other answers.
        let mask = llvm!(LLVMGetOperand(instruction, *mask));
        let is_full =
            !llvm!(LLVMIsAConstantInt(mask)).is_null() && llvm!(LLVMConstIntGetSExtValue(mask)) == -1;
        return CallValue::Same(if is_full { SameFor::Warp } else { SameFor::Thread });
    }
    let has = |kind: &str| {
        let index = inkwell::llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMGetEnumAttributeAtIndex(callee, index, attribute_kind(kind)))
    };
    let memory = has("memory");
    let is_pure = !memory.is_null() && llvm!(LLVMGetEnumAttributeValue(memory)) == 0;
    if name == "__nvvm_reflect" || (is_pure && has("convergent").is_null()) {
        CallValue::OfOperands
    } else {
        CallValue::Same(SameFor::Thread)
    }
}

/// Whether a load reads memory that nothing writes while the kernel runs.
pub fn reads_fixed(
    read_only: &mut HashMap<LLVMValueRef, bool>,
    load: LLVMValueRef,
    pointer: LLVMValueRef,
) -> bool {
    if llvm!(LLVMGetVolatile(load)) != 0 {
        return false;
    }
    const INVARIANT: &str = "invariant.load";
    let context = llvm!(LLVMGetTypeContext(LLVMTypeOf(load)));
    let kind = llvm!(LLVMGetMDKindIDInContext(
        context,
        INVARIANT.as_ptr().cast(),
        INVARIANT.len() as u32
    ));
    if !llvm!(LLVMGetMetadata(load, kind)).is_null() {
        return true;
    }
    let base = base(pointer);
    if !llvm!(LLVMIsAGlobalVariable(base)).is_null() {
        return llvm!(LLVMIsGlobalConstant(base)) != 0 || address_space(base) == CONSTANT;
    }
    !llvm!(LLVMIsAArgument(base)).is_null()
        && *read_only.entry(base).or_insert_with(|| is_read_only_copy(base))
}

/// What a pointer points into, as far as it shows.
pub fn base(pointer: LLVMValueRef) -> LLVMValueRef {
    let mut at = pointer;
    loop {
        let code = if is_instruction(at) {
            opcode(at)
        } else if !llvm!(LLVMIsAConstantExpr(at)).is_null() {
            llvm!(LLVMGetConstOpcode(at))
        } else {
            return at;
        };
        match code {
            LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast => {
                at = llvm!(LLVMGetOperand(at, 0));
            }
            _ => return at,
        }
    }
}

/// Whether a parameter is a structure passed by value that the kernel only reads.
fn is_read_only_copy(argument: LLVMValueRef) -> bool {
    by_value(argument).is_some() && is_only_read(argument)
}

/// The type of a parameter that is passed by value.
pub fn by_value(argument: LLVMValueRef) -> Option<LLVMTypeRef> {
    let function = llvm!(LLVMGetParamParent(argument));
    let at = parameters(function).iter().position(|&one| one == argument)?;
    let kind = attribute_kind("byval");
    let attribute = llvm!(LLVMGetEnumAttributeAtIndex(function, at as u32 + 1, kind));
    (!attribute.is_null()).then(|| llvm!(LLVMGetTypeAttributeValue(attribute)))
}

/// Whether everything that is done with an address, as far as it is followed, is to read.
pub fn is_only_read(argument: LLVMValueRef) -> bool {
    let mut waiting = vec![argument];
    while let Some(pointer) = waiting.pop() {
        for user in users(pointer) {
            if !is_instruction(user) {
                return false;
            }
            match opcode(user) {
                LLVMOpcode::LLVMLoad => {}
                LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast => waiting.push(user),
                LLVMOpcode::LLVMCall => {
                    let name = callee(user).map(name).unwrap_or_default();
                    let is_source = name.starts_with("llvm.memcpy.") && operands(user)[0] != pointer;
                    if !is_source && !name.starts_with("llvm.lifetime.") {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }
    true
}

fn is_phi(instruction: LLVMValueRef) -> bool {
    opcode(instruction) == LLVMOpcode::LLVMPHI
}

/// The blocks of a function, and where the paths from each meet again.
pub struct Flow {
    meetings: HashMap<LLVMBasicBlockRef, LLVMBasicBlockRef>,
    /// Blocks from which threads may return without having met all others at a barrier.
    returns_freely: HashSet<LLVMBasicBlockRef>,
}

impl Flow {
    /// Reads a function.
    pub fn of(function: LLVMValueRef) -> Self {
        let all = blocks(function);
        // Backwards, from the place where all threads that return meet.
        let mut graph = DiGraph::<Option<LLVMBasicBlockRef>, ()>::new();
        let exit = graph.add_node(None);
        let nodes: HashMap<LLVMBasicBlockRef, NodeIndex> = all
            .iter()
            .map(|&block| (block, graph.add_node(Some(block))))
            .collect();
        for &block in &all {
            let end = llvm!(LLVMGetBasicBlockTerminator(block));
            if opcode(end) == LLVMOpcode::LLVMRet {
                graph.add_edge(exit, nodes[&block], ());
            }
            for next in successors(block) {
                graph.add_edge(nodes[&next], nodes[&block], ());
            }
        }
        let tree = dominators::simple_fast(&graph, exit);
        let meeting = |block: &LLVMBasicBlockRef| {
            let meeting = tree.immediate_dominator(nodes[block])?;
            Some((*block, graph[meeting]?))
        };
        let mut returns_freely = HashSet::new();
        let mut waiting = vec![exit];
        while let Some(at) = waiting.pop() {
            for node in graph.neighbors(at) {
                let block = graph[node].expect("nothing leads from the exit");
                if !has_barrier(block) && returns_freely.insert(block) {
                    waiting.push(node);
                }
            }
        }
        Self {
            meetings: all.iter().filter_map(meeting).collect(),
            returns_freely,
        }
    }

    /// The blocks on the paths from a block to where they meet; and that place, none where it is the end.
    pub fn region(
        &self,
        block: LLVMBasicBlockRef,
    ) -> (HashSet<LLVMBasicBlockRef>, Option<LLVMBasicBlockRef>) {
        let meeting = self.meetings.get(&block).copied();
        let mut region = HashSet::new();
        let mut waiting = successors(block);
        while let Some(next) = waiting.pop() {
            if Some(next) != meeting && region.insert(next) {
                waiting.extend(successors(next));
            }
        }
        (region, meeting)
    }
}

/// Whether all threads of the block that have not returned meet here.
fn has_barrier(block: LLVMBasicBlockRef) -> bool {
    let calls = block_instructions(block).into_iter().filter(|&at| is_call(at));
    calls.filter_map(callee).any(|callee| {
        let name = name(callee);
        name.starts_with("llvm.nvvm.barrier.cta.") && name.ends_with(".all")
    })
}

/// The blocks that a block may go on to.
pub fn successors(block: LLVMBasicBlockRef) -> Vec<LLVMBasicBlockRef> {
    let end = llvm!(LLVMGetBasicBlockTerminator(block));
    (0..llvm!(LLVMGetNumSuccessors(end)))
        .map(|at| llvm!(LLVMGetSuccessor(end, at)))
        .collect()
}
