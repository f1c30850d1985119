//! Which kernels can be run in parts, by what their code does.
use std::collections::{BTreeSet, HashSet};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMFastMathAllowReassoc, LLVMOpcode};
use mgb_catalogue::report::ReasonCode;

use super::super::callgraph::{CallGraph, Reach, is_of_system};
use super::super::ir::*;
use super::super::layout::{Layout, align_up};
use super::super::redundancy::{Redundancy, SameFor, by_value};
use super::super::{module, side_files};
use super::memory::{self, assembly_words};
use super::{PartsKind, frame};
use crate::assume::Proof;

/// NVVM's address space of shared memory.
const SHARED: u32 = 3;
/// The most static shared memory that a block may have, in bytes.
const MOST_STATIC_SHARED: u64 = 48 << 10;

/// How many bytes of parameters any kernel may have, and those of recent PTX, less what alignments may take.
const FEW_PARAMETERS: u64 = 4096;
const MOST_PARAMETERS: u64 = 32_764 - 64;

/// Judges a kernel of a module that is cleaned up.
pub fn judge(graph: &CallGraph, module: LLVMModuleRef, kernel: LLVMValueRef) -> PartsKind {
    let reach = graph.reach(kernel);
    let mut found = Findings::default();
    found.kernel(module, kernel, &reach);
    for &function in &reach.functions {
        found.function(function);
    }
    if reach.calls_pointer {
        found.obstacles.insert(ReasonCode::UnknownCallee);
    }
    found.together(kernel);
    PartsKind {
        obstacles: found.obstacles,
        whole_rows: found.whole_rows,
        parameters: sizes(kernel),
    }
}

/// Looks at the kernel as the optimiser has not seen it yet, which is what a twin is made of: a call that it
/// will resolve goes through a pointer there.
pub fn confirm(graph: &CallGraph, kernel: LLVMValueRef, mut parts: PartsKind) -> PartsKind {
    let obstacles = &mut parts.obstacles;
    if graph.reach(kernel).calls_pointer {
        obstacles.insert(ReasonCode::UnknownCallee);
    }
    let is_variadic = |function: &LLVMValueRef| {
        !is_declaration(*function) && llvm!(LLVMIsFunctionVarArg(value_type(*function))) != 0
    };
    if graph.reach(kernel).functions.iter().any(is_variadic) {
        obstacles.insert(ReasonCode::UnknownCallee);
    }
    let may_reorder = |at: LLVMValueRef| {
        llvm!(LLVMCanValueUseFastMathFlags(at)) != 0
            && llvm!(LLVMGetFastMathFlags(at)) & LLVMFastMathAllowReassoc != 0
    };
    let reached = graph.reach(kernel).functions;
    if reached.into_iter().flat_map(instructions).any(may_reorder) {
        obstacles.insert(ReasonCode::FastMath);
    }
    if !has_room_for_parameter(kernel) {
        obstacles.insert(ReasonCode::Parameters);
    }
    let entry = llvm!(LLVMGetEntryBasicBlock(kernel));
    let grows = |at: &LLVMValueRef| {
        let is_fixed = || !llvm!(LLVMIsAConstantInt(LLVMGetOperand(*at, 0))).is_null();
        opcode(*at) == LLVMOpcode::LLVMAlloca
            && !(llvm!(LLVMGetInstructionParent(*at)) == entry && is_fixed())
    };
    if instructions(kernel).iter().any(grows) {
        obstacles.insert(ReasonCode::VariableStack);
    }
    parts
}

/// Whether threads of a block may meet, or have shared memory: then the next block must not begin before all
/// have ended.
pub fn have_in_common(graph: &CallGraph, kernel: LLVMValueRef) -> bool {
    let reach = graph.reach(kernel);
    let is_barrier = |function: &LLVMValueRef| {
        let name = name(*function);
        let name = name.strip_prefix("llvm.nvvm.").unwrap_or_default();
        name.starts_with("barrier") || name.starts_with("bar.")
    };
    let has_assembly = |function: &LLVMValueRef| {
        let mut code = instructions(*function).into_iter();
        code.any(|at| is_call(at) && assembly_text(at).is_some())
    };
    reach
        .globals
        .iter()
        .any(|&global| address_space(global) == SHARED)
        || reach.functions.iter().any(is_barrier)
        || reach.functions.iter().any(has_assembly)
}

/// The bytes of each parameter of a kernel.
pub fn sizes(kernel: LLVMValueRef) -> Vec<u32> {
    let layout = Layout::of(llvm!(LLVMGetGlobalParent(kernel)));
    let size = |parameter| layout.size(by_value(parameter).unwrap_or(llvm!(LLVMTypeOf(parameter)))) as u32;
    parameters(kernel).into_iter().map(size).collect()
}

/// Whether a kernel may have one parameter more. Those beyond 4 KiB need newer PTX than a kernel with fewer
/// does.
fn has_room_for_parameter(kernel: LLVMValueRef) -> bool {
    let layout = Layout::of(llvm!(LLVMGetGlobalParent(kernel)));
    let bytes = parameters(kernel).into_iter().fold(0, |end, parameter| {
        let ty = by_value(parameter).unwrap_or(llvm!(LLVMTypeOf(parameter)));
        align_up(end, layout.align(ty)) + layout.size(ty)
    });
    let more = align_up(bytes, 8) + 8;
    more <= FEW_PARAMETERS || (bytes > FEW_PARAMETERS && more <= MOST_PARAMETERS)
}

/// A barrier of the block.
struct Barrier {
    call: LLVMValueRef,
    /// Whether a number of threads is given with it, or it may be another one than the first.
    may_be_partial: bool,
}

#[derive(Default)]
struct Findings {
    obstacles: BTreeSet<ReasonCode>,
    barriers: Vec<Barrier>,
    /// Calls by which lanes of a warp work together.
    of_warps: Vec<LLVMValueRef>,
    whole_rows: bool,
}

impl Findings {
    fn kernel(&mut self, module: LLVMModuleRef, kernel: LLVMValueRef, reach: &Reach) {
        let arch = module::architecture(module).unwrap_or_default();
        if side_files::arch_number(&arch) < 70 {
            self.obstacles.insert(ReasonCode::OldArchitecture);
        }
        if [
            "nvvm.cluster_dim",
            "nvvm.maxclusterrank",
            "nvvm.blocksareclusters",
        ]
        .iter()
        .any(|key| string_attribute(kernel, key).is_some())
        {
            self.obstacles.insert(ReasonCode::Cluster);
        }
        let layout = Layout::of(module);
        let fixed = reach
            .globals
            .iter()
            .filter(|&&global| address_space(global) == SHARED && !is_declaration(global));
        let bytes: u64 = fixed.map(|&global| layout.size(value_type(global))).sum();
        if bytes + frame::SHARED_BYTES > MOST_STATIC_SHARED {
            self.obstacles.insert(ReasonCode::SharedMemory);
        }
    }

    fn function(&mut self, function: LLVMValueRef) {
        if is_declaration(function) {
            self.declared(&name(function));
            return;
        }
        for call in instructions(function).into_iter().filter(|&at| is_call(at)) {
            if let Some(text) = assembly_text(call) {
                self.assembly(call, &text);
            } else if let Some(callee) = callee(call) {
                self.call(call, &name(callee));
            }
        }
        if memory::waits_for_others(function) {
            self.obstacles.insert(ReasonCode::WaitsForBlocks);
        }
    }

    /// A function that has no body here.
    fn declared(&mut self, name: &str) {
        const LAUNCHES: [&str; 4] = [
            "cudaLaunchDevice",
            "cudaGetParameterBuffer",
            "__cudaCDP",
            "__cudaLaunchDevice",
        ];
        if LAUNCHES.iter().any(|one| name.starts_with(one)) {
            self.obstacles.insert(ReasonCode::LaunchesKernels);
        } else if !name.starts_with("llvm.") && !name.starts_with("__nv_") && !is_of_system(name) {
            self.obstacles.insert(ReasonCode::UnknownCallee);
        }
    }

    fn call(&mut self, call: LLVMValueRef, name: &str) {
        let Some(name) = name.strip_prefix("llvm.nvvm.") else {
            return;
        };
        const ASYNCHRONOUS: [&str; 9] = [
            "mbarrier.",
            "cp.async.",
            "cp.reduce.async.",
            "wgmma.",
            "tcgen05.",
            "setmaxnreg.",
            "fence.proxy.",
            "prefetch.tensormap",
            "applypriority.",
        ];
        const OF_WARPS: [&str; 7] = [
            "bar.warp.sync",
            "shfl.sync.",
            "vote.",
            "match.",
            "redux.sync.",
            "elect.sync",
            "activemask",
        ];
        let begins = |all: &[&str]| all.iter().any(|one| name.starts_with(one));
        if let Some(register) = name.strip_prefix("read.ptx.sreg.") {
            self.register(register);
        } else if name.starts_with("barrier.cluster.")
            || name.starts_with("mapa")
            || name.starts_with("getctarank")
        {
            self.obstacles.insert(ReasonCode::Cluster);
        } else if name.starts_with("griddepcontrol.") {
            self.obstacles.insert(ReasonCode::ProgrammaticDependence);
        } else if name == "exit" {
            self.obstacles.insert(ReasonCode::ThreadExit);
        } else if begins(&ASYNCHRONOUS) {
            self.obstacles.insert(ReasonCode::Asynchronous);
        } else if begins(&OF_WARPS) {
            self.of_warps.push(call);
        } else if name.starts_with("barrier") {
            let first = operands(call)[0];
            let is_first = llvm!(LLVMIsConstant(first)) != 0
                && !llvm!(LLVMIsAConstantInt(first)).is_null()
                && llvm!(LLVMConstIntGetZExtValue(first)) == 0;
            let is_whole = name.ends_with(".all");
            self.barriers.push(Barrier {
                call,
                may_be_partial: !is_whole && (is_first || llvm!(LLVMIsAConstantInt(first)).is_null()),
            });
        }
    }

    /// A special register is read.
    fn register(&mut self, register: &str) {
        if register.starts_with("envreg") {
            self.obstacles.insert(ReasonCode::GridBarrier);
        } else if register.starts_with("cluster.")
            || register.starts_with("nclusterid")
            || register.starts_with("clusterid")
        {
            self.obstacles.insert(ReasonCode::Cluster);
        } else if register.starts_with("total.smem") || register.starts_with("aggr.smem") {
            self.obstacles.insert(ReasonCode::SharedMemory);
        }
    }

    fn assembly(&mut self, call: LLVMValueRef, text: &str) {
        const REGISTERS: [(&str, ReasonCode); 6] = [
            ("%ctaid", ReasonCode::BlockIndexInAssembly),
            ("%nctaid", ReasonCode::BlockIndexInAssembly),
            ("%envreg", ReasonCode::GridBarrier),
            ("cluster", ReasonCode::Cluster),
            ("%total_smem", ReasonCode::SharedMemory),
            ("%aggr_smem", ReasonCode::SharedMemory),
        ];
        const INSTRUCTIONS: [(&str, ReasonCode); 13] = [
            ("exit", ReasonCode::ThreadExit),
            ("ret", ReasonCode::ThreadExit),
            ("call", ReasonCode::UnknownCallee),
            ("griddepcontrol", ReasonCode::ProgrammaticDependence),
            ("barrier", ReasonCode::BarrierApart),
            ("bar", ReasonCode::BarrierApart),
            ("mbarrier", ReasonCode::Asynchronous),
            ("cp", ReasonCode::Asynchronous),
            ("wgmma", ReasonCode::Asynchronous),
            ("tcgen05", ReasonCode::Asynchronous),
            ("setmaxnreg", ReasonCode::Asynchronous),
            ("fence.proxy", ReasonCode::Asynchronous),
            ("mapa", ReasonCode::Cluster),
        ];
        const OF_WARPS: [&str; 6] = ["shfl", "vote", "match", "redux", "elect", "activemask"];
        let found = REGISTERS.iter().filter(|(part, _)| text.contains(part));
        self.obstacles.extend(found.map(|(_, obstacle)| *obstacle));
        for word in assembly_words(text) {
            // With LLVM's names of operands: `bar.sync $0;`.
            let is = |name: &str| {
                word.strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if word.starts_with("bar.warp") || OF_WARPS.iter().any(|name| is(name)) {
                self.of_warps.push(call);
                continue;
            }
            let found = INSTRUCTIONS.iter().filter(|(name, _)| is(name));
            self.obstacles.extend(found.map(|(_, obstacle)| *obstacle));
        }
    }

    /// What threads of the block do together, and whether all of them are there.
    fn together(&mut self, kernel: LLVMValueRef) {
        let redundancy = Redundancy::of(kernel);
        let in_kernel: HashSet<LLVMBasicBlockRef> = blocks(kernel).into_iter().collect();
        // Of a function that is not inlined only the kernel's branches are known.
        let place =
            |call| Some(llvm!(LLVMGetInstructionParent(call))).filter(|block| in_kernel.contains(block));
        let anywhere =
            |found: &dyn Fn(LLVMBasicBlockRef) -> SameFor| in_kernel.iter().map(|&block| found(block)).max();
        let follows_exit = |call| {
            let found = |block| redundancy.follows_exit(block);
            place(call)
                .map(found)
                .or_else(|| anywhere(&found))
                .unwrap_or_default()
        };
        let follows = self.of_warps.iter().map(|&call| follows_exit(call)).max();
        match follows.unwrap_or_default() {
            SameFor::Block => {}
            SameFor::Warp => self.whole_rows = true,
            SameFor::Thread => {
                self.obstacles.insert(ReasonCode::WarpAfterExit);
            }
        }
        let is_apart = |call| place(call).is_none_or(|block| redundancy.apart(block) != SameFor::Block);
        let are_apart = self.barriers.iter().any(|barrier| is_apart(barrier.call));
        let any_partial = self.barriers.iter().any(|barrier| barrier.may_be_partial);
        if any_partial || (are_apart && !Proof::Together.is_assumed()) {
            self.obstacles.insert(ReasonCode::BarrierApart);
        }
    }
}
