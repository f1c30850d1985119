//! Makes coroutines of kernels whose threads wait for each other.
//!
//! A thread that waits must be suspended and resumed. The software GPU can give each thread a stack, but
//! switching stacks costs far more than what a thread does between two barriers. So where every place at
//! which a thread can wait can be inlined into the kernel, LLVM splits the kernel at them: what a thread
//! needs after each is kept in a small frame, and resuming is a call. Kernels that wait in recursive
//! functions, or that call through pointers, keep stacks.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::linker::LLVMLinkModules2;
use inkwell::llvm_sys::prelude::*;

use super::callgraph::CallGraph;
use super::helpers;
use super::ir::*;
use super::kernel::Kernel;
use super::module;

/// The coroutine around a kernel's entry.
const TEMPLATE: &str = include_str!("support/coroutine.ll");
/// The offset in `softgpu_thread` of the result of what a thread waited for.
const ANSWER_AT: u64 = 144;
/// The alignment of frames; variables that want more keep their kernel on stacks.
const FRAME_ALIGN: u32 = 64;
/// Instructions that a kernel may grow to when all functions that wait are inlined.
const LARGEST: usize = 50_000;

const INLINE: &std::ffi::CStr = c"always-inline";
const SPLIT: &std::ffi::CStr = c"coro-early,cgscc(coro-split),coro-cleanup,globaldce,\
    function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";

/// Numbers the places that ask for the active lanes.
pub fn number_sites(module: LLVMModuleRef) {
    let asks = llvm!(LLVMGetNamedFunction(module, c"softgpu.active_mask_at".as_ptr()));
    if asks.is_null() {
        return;
    }
    let calls = users(asks).into_iter().filter(|&user| is_instruction(user));
    for (number, call) in calls.enumerate() {
        let ty = llvm!(LLVMTypeOf(operands(call)[0]));
        llvm!(LLVMSetOperand(call, 0, LLVMConstInt(ty, number as u64 + 1, 0)));
    }
}

/// Makes a coroutine of each kernel that allows it.
pub fn split(module: LLVMModuleRef, kernels: &mut [Kernel]) -> Result<(), String> {
    let graph = WaitingFunctions::new(module);
    let mut chosen: Vec<(LLVMValueRef, &mut Kernel)> = Vec::new();
    for kernel in kernels
        .iter_mut()
        .filter(|kernel| kernel.waits && kernel.error.is_none())
    {
        let entry = llvm!(LLVMGetNamedFunction(module, c_string(&kernel.entry).as_ptr()));
        if graph.can_be_inlined(entry) {
            chosen.push((entry, kernel));
        }
    }
    if chosen.is_empty() {
        return Ok(());
    }
    graph.inline_all();
    for (entry, kernel) in &chosen {
        surround(module, *entry, &kernel.entry)?;
    }
    module::run_passes(module, INLINE)?;
    chosen.retain_mut(|(_, kernel)| {
        let thread = coroutine_of(module, &kernel.entry);
        let fits = fits(thread);
        if fits {
            suspend(&graph, thread);
        } else {
            llvm!(LLVMDeleteFunction(thread));
        }
        fits
    });
    for (entry, kernel) in &mut chosen {
        llvm!(LLVMDeleteFunction(*entry));
        kernel.entry = coroutine_name(&kernel.entry);
    }
    module::run_passes(module, SPLIT)?;
    for (_, kernel) in chosen {
        let thread = llvm!(LLVMGetNamedFunction(module, c_string(&kernel.entry).as_ptr()));
        kernel.frame_bytes = Some(frame_bytes(thread)?);
        let resume = c_string(&format!("{}.resume", kernel.entry));
        let resume = llvm!(LLVMGetNamedFunction(module, resume.as_ptr()));
        // The software GPU calls it, as C does.
        llvm!(LLVMSetFunctionCallConv(resume, 0));
    }
    Ok(())
}

fn coroutine_name(entry: &str) -> String {
    format!("{entry}.thread")
}

fn coroutine_of(module: LLVMModuleRef, entry: &str) -> LLVMValueRef {
    llvm!(LLVMGetNamedFunction(
        module,
        c_string(&coroutine_name(entry)).as_ptr()
    ))
}

/// Which functions may wait, and how they call each other.
struct WaitingFunctions {
    calls: HashMap<LLVMValueRef, Vec<LLVMValueRef>>,
    sizes: HashMap<LLVMValueRef, usize>,
    /// The services that a thread waits in.
    services: HashSet<LLVMValueRef>,
    /// The other functions that reach one of those.
    between: HashSet<LLVMValueRef>,
    /// Functions from which a call through a pointer is reached: it may wait.
    through_pointers: HashSet<LLVMValueRef>,
}

impl WaitingFunctions {
    fn new(module: LLVMModuleRef) -> Self {
        let graph = CallGraph::new(module);
        let is_service = |function: LLVMValueRef| {
            string_attribute(function, "softgpu-waits").is_some()
                || ["softgpu.yield", "softgpu.exit"].contains(&name(function).as_str())
        };
        let all = defined_functions(module);
        let services: HashSet<_> = all.iter().copied().filter(|&at| is_service(at)).collect();
        let mut waits = Self {
            calls: HashMap::new(),
            sizes: HashMap::new(),
            services,
            between: HashSet::new(),
            through_pointers: HashSet::new(),
        };
        for function in all {
            let reach = graph.reach(function);
            let reaches = reach.functions.iter().any(|at| waits.services.contains(at));
            if reaches && !waits.services.contains(&function) {
                waits.between.insert(function);
            }
            if reach.calls_pointer {
                waits.through_pointers.insert(function);
            }
            let code = instructions(function);
            let calls = code
                .iter()
                .filter(|&&at| is_call(at))
                .filter_map(|&at| callee(at));
            waits.calls.insert(function, calls.collect());
            waits.sizes.insert(function, code.len());
        }
        waits
    }

    /// Whether all functions that wait can be inlined into a function.
    fn can_be_inlined(&self, entry: LLVMValueRef) -> bool {
        !self.through_pointers.contains(&entry) && self.grown(entry, &mut Vec::new()).is_some()
    }

    /// The instructions of a function with all that waits inlined; none if it cannot be.
    fn grown(&self, function: LLVMValueRef, above: &mut Vec<LLVMValueRef>) -> Option<usize> {
        if above.contains(&function) || above.len() > 64 {
            return None;
        }
        let mut size = self.sizes[&function];
        above.push(function);
        for callee in self.calls[&function]
            .iter()
            .filter(|callee| self.between.contains(callee))
        {
            size += self.grown(*callee, above)?;
            if size > LARGEST {
                return None;
            }
        }
        above.pop();
        Some(size)
    }

    /// Inlines all functions that wait where they are called.
    fn inline_all(&self) {
        for &function in &self.between {
            let context = llvm!(LLVMGetModuleContext(LLVMGetGlobalParent(function)));
            let index = inkwell::llvm_sys::LLVMAttributeFunctionIndex;
            llvm!(LLVMRemoveEnumAttributeAtIndex(
                function,
                index,
                attribute_kind("noinline")
            ));
            let always = llvm!(LLVMCreateEnumAttribute(
                context,
                attribute_kind("alwaysinline"),
                0
            ));
            llvm!(LLVMAddAttributeAtIndex(function, index, always));
        }
    }
}

/// Adds the coroutine that calls a kernel's entry.
fn surround(module: LLVMModuleRef, entry: LLVMValueRef, name: &str) -> Result<(), String> {
    let text = TEMPLATE
        .replace("KERNEL", name)
        .replace("THREAD", &coroutine_name(name));
    let parsed = module::parse(llvm!(LLVMGetModuleContext(module)), &text)
        .map_err(|error| format!("failed to parse a coroutine: {error}"))?;
    llvm!(LLVMSetTarget(parsed, LLVMGetTarget(module)));
    llvm!(LLVMSetDataLayout(parsed, LLVMGetDataLayoutStr(module)));
    if llvm!(LLVMLinkModules2(module, parsed)) != 0 {
        return Err("failed to link a coroutine".to_owned());
    }
    let thread = coroutine_of(module, name);
    for key in ["target-cpu", "target-features", "tune-cpu"] {
        if let Some(value) = string_attribute(entry, key) {
            set_string_attribute(thread, key, &value);
        }
    }
    Ok(())
}

/// Whether LLVM can keep all of a function's variables in a frame.
fn fits(function: LLVMValueRef) -> bool {
    let first = llvm!(LLVMGetEntryBasicBlock(function));
    instructions(function)
        .into_iter()
        .filter(|&at| opcode(at) == LLVMOpcode::LLVMAlloca)
        .all(|at| {
            llvm!(LLVMIsConstant(LLVMGetOperand(at, 0))) != 0
                && llvm!(LLVMGetInstructionParent(at)) == first
                && llvm!(LLVMGetAlignment(at)) <= FRAME_ALIGN
        })
}

/// Suspends a coroutine behind each service that it calls.
fn suspend(graph: &WaitingFunctions, thread: LLVMValueRef) {
    let block = |wanted: &str| {
        let named = |&block: &LLVMBasicBlockRef| name(llvm!(LLVMBasicBlockAsValue(block))) == wanted;
        blocks(thread)
            .into_iter()
            .find(named)
            .expect("the template has it")
    };
    let (last, out) = (block("last"), block("out"));
    let this = llvm!(LLVMGetParam(thread, 0));
    let waits = |&at: &LLVMValueRef| is_call(at) && callee(at).is_some_and(|at| graph.services.contains(&at));
    for call in instructions(thread).into_iter().filter(waits).collect::<Vec<_>>() {
        if callee(call).is_some_and(|service| name(service) == "softgpu.exit") {
            helpers::end_at(call, last);
            continue;
        }
        let after = llvm!(LLVMGetNextInstruction(call));
        helpers::suspend_after(call, out);
        if !users(call).is_empty() {
            let builder = Builder::before(after);
            let place = builder.byte_offset(this, ANSWER_AT);
            let answer = llvm!(LLVMBuildLoad2(
                builder.raw(),
                LLVMTypeOf(call),
                place,
                c"".as_ptr()
            ));
            llvm!(LLVMReplaceAllUsesWith(call, answer));
        }
    }
}

/// What a coroutine that has been split returns.
fn frame_bytes(thread: LLVMValueRef) -> Result<u64, String> {
    let returned = instructions(thread)
        .into_iter()
        .find(|&at| opcode(at) == LLVMOpcode::LLVMRet)
        .map(|at| llvm!(LLVMGetOperand(at, 0)))
        .filter(|&value| !llvm!(LLVMIsAConstantInt(value)).is_null());
    match returned {
        Some(value) => Ok(llvm!(LLVMConstIntGetZExtValue(value))),
        None => Err(format!(
            "LLVM did not say how long a frame of {:?} is",
            name(thread)
        )),
    }
}
