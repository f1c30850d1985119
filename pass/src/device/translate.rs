//! Translates a device module into host code, step by step.
//!
//! It works in a context of its own: what LLVM reports on the module is an error here, and not a diagnostic
//! of the user's compile.
use std::collections::HashMap;
use std::path::PathBuf;

use inkwell::llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use inkwell::llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::callgraph::{CallGraph, Reach};
use super::entry;
use super::ir::*;
use super::kernel::Kernel;
use super::layout::Layout;
use super::module;
use super::{
    coroutines, counters, divide, estimate, lockstep, rdc_link, runtime_stubs, sanitized, saturate, shared,
    slots, spin_waits, support, variables, wrap32,
};

/// What every symbol of translated code starts with.
pub const PREFIX: &str = "softgpu.";

/// Passes that make `-O0` code like that of any other level, for the analyses.
pub const CLEAN_UP: &std::ffi::CStr = c"always-inline,globaldce,globalopt,function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>),\
    cgscc(inline),globaldce,function(sroa,early-cse,simplifycfg)";
const OPTIMISE: &std::ffi::CStr = c"globaldce,default<O2>";
const FINISH: &std::ffi::CStr = c"globaldce";

/// A translated module.
pub struct Translation {
    /// The kernels that were translated.
    pub kernels: Vec<Kernel>,
    /// Its device variables.
    pub block: variables::VariableBlock,
    /// Its code, as bitcode for the host: all private but what the image refers to.
    pub code: LLVMMemoryBufferRef,
}

impl Drop for Translation {
    fn drop(&mut self) {
        llvm!(LLVMDisposeMemoryBuffer(self.code));
    }
}

/// An LLVM context that is disposed of with its scope, and collects its own diagnostics.
pub struct LlvmContext(pub LLVMContextRef);

impl LlvmContext {
    /// A fresh one.
    pub fn new() -> Self {
        extern "C" fn ignore(_: LLVMDiagnosticInfoRef, _: *mut std::ffi::c_void) {}
        let context = llvm!(LLVMContextCreate());
        llvm!(LLVMContextSetDiagnosticHandler(
            context,
            Some(ignore),
            std::ptr::null_mut()
        ));
        Self(context)
    }
}

impl Drop for LlvmContext {
    fn drop(&mut self) {
        llvm!(LLVMContextDispose(self.0));
    }
}

/// Translates the modules in files, merged into one, for the target of `host`.
pub fn translate(paths: &[PathBuf], host: LLVMModuleRef) -> Result<Translation, String> {
    let context = LlvmContext::new();
    let module = rdc_link::merge(context.0, paths)?;
    let arch = paths.iter().map(|path| rdc_link::arch(path)).max().unwrap_or(0);
    translate_module(module.raw(), arch, host)
}

fn translate_module(module: LLVMModuleRef, arch: u32, host: LLVMModuleRef) -> Result<Translation, String> {
    let device_kernels = module::kernels(module);
    let layout = Layout::of(module);
    let mut kernels: Vec<Kernel> = device_kernels
        .iter()
        .map(|&kernel| describe(layout, kernel))
        .collect();

    module::retarget(module, host, &device_kernels);
    module::simplify_libdevice(module, arch);
    saturate::conversions(module);
    let names = rename(module);
    runtime_stubs::resolve(module, runtime_stubs::describe)?;
    divide::without_traps(module);
    variables::refuse_undefined(module);
    let mut entries = Vec::new();
    for (&function, kernel) in device_kernels.iter().zip(&kernels) {
        entries.push(entry::emit(module, function, &kernel.entry));
    }

    module::run_passes(module, CLEAN_UP)?;
    drop_used_lists(module);
    let graph = CallGraph::new(module);
    let reach: Vec<Reach> = entries.iter().map(|&entry| graph.reach(entry)).collect();
    let names_of_kernels: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let shared = shared::place(module, &reach, &names_of_kernels);
    wrap32::indices(module);
    let block = variables::place(module, &names)?;
    lockstep::insert(module, &reach);
    coroutines::number_sites(module);
    spin_waits::insert(module);
    counters::insert(module);
    private_support(module);
    module::run_passes(module, OPTIMISE)?;
    slots::resolve(module, &entries);

    let (graph, layout) = (CallGraph::new(module), Layout::of(module));
    for ((&entry, kernel), bytes) in entries.iter().zip(&mut kernels).zip(shared) {
        let reach = graph.reach(entry);
        let attribute = |key| {
            reach
                .functions
                .iter()
                .find_map(|&function| string_attribute(function, key))
        };
        kernel.error =
            attribute(runtime_stubs::MISSING).map(|what| format!("the software GPU has no {what}"));
        kernel.waits = attribute("softgpu-waits").is_some() || reach.calls_pointer;
        kernel.static_shared = bytes;
        kernel.registers = estimate::registers(layout, &reach);
        kernel.stack_bytes = estimate::stack_bytes(layout, &reach);
    }
    for (&entry, _) in entries
        .iter()
        .zip(&kernels)
        .filter(|(_, kernel)| kernel.error.is_some())
    {
        llvm!(LLVMDeleteFunction(entry));
    }
    if !sanitized::is(host) {
        coroutines::split(module, &mut kernels)?;
    }
    module::run_passes(module, FINISH)?;
    check(module)?;
    Ok(Translation {
        kernels,
        block,
        code: llvm!(LLVMWriteBitcodeToMemoryBuffer(module)),
    })
}

/// The properties of a kernel that the device module states.
fn describe(layout: Layout, kernel: LLVMValueRef) -> Kernel {
    let name = name(kernel);
    // A bound may be stated per dimension: "32,4,1".
    let bound = string_attribute(kernel, "nvvm.maxntid").and_then(|text| {
        text.split(',')
            .map(|part| part.trim().parse::<u32>().ok())
            .try_fold(1, |all, one| Some(all * one?))
    });
    Kernel {
        entry: format!("{PREFIX}entry.{name}"),
        name,
        parameters: entry::parameters_of(layout, kernel),
        error: None,
        waits: true,
        static_shared: 0,
        registers: 0,
        stack_bytes: 0,
        max_threads: bound.unwrap_or(0),
        frame_bytes: None,
    }
}

/// Gives everything the device module defines a name that no host symbol and no library has; returns
/// the variables' own names.
fn rename(module: LLVMModuleRef) -> HashMap<LLVMValueRef, String> {
    for function in defined_functions(module) {
        set_name(function, &format!("{PREFIX}device.{}", name(function)));
    }
    let mut names = HashMap::new();
    for global in globals(module)
        .into_iter()
        .filter(|&global| !is_declaration(global))
    {
        let name = name(global);
        if !name.starts_with("llvm.") {
            set_name(global, &format!("{}{name}", variables::PREFIX));
            names.insert(global, name);
        }
    }
    names
}

/// The lists that kept device variables and kernels alive while nothing here used them.
fn drop_used_lists(module: LLVMModuleRef) {
    for name in [c"llvm.used", c"llvm.compiler.used"] {
        let list = llvm!(LLVMGetNamedGlobal(module, name.as_ptr()));
        if !list.is_null() {
            llvm!(LLVMDeleteGlobal(list));
        }
    }
}

/// Makes the support code private, but for what the image or a later step refers to.
fn private_support(module: LLVMModuleRef) {
    const KEPT: [&str; 5] = [
        "softgpu.self",
        "softgpu.variables",
        "softgpu.self_slot",
        "softgpu.variables_slot",
        variables::INITIAL,
    ];
    for global in functions(module).into_iter().chain(globals(module)) {
        let name = name(global);
        let ours = name.starts_with(PREFIX) && !name.starts_with("softgpu.entry.");
        if ours && !is_declaration(global) && !KEPT.contains(&name.as_str()) {
            make_internal(global);
        }
    }
}

/// Refuses code that would break the user's compile or link.
fn check(module: LLVMModuleRef) -> Result<(), String> {
    for global in functions(module).into_iter().chain(globals(module)) {
        let name = name(global);
        let allowed = name.starts_with("llvm.") || support::is_host_function(&name);
        if is_declaration(global) && !allowed && !users(global).is_empty() {
            return Err(format!(
                "device code refers to {name:?}, which no part of it defines"
            ));
        }
    }
    let mut error = std::ptr::null_mut();
    let broken = llvm!(LLVMVerifyModule(
        module,
        LLVMVerifierFailureAction::LLVMReturnStatusAction,
        &mut error
    ));
    let text = message(error);
    if broken != 0 {
        Err(format!("the translation is not valid: {text}"))
    } else {
        Ok(())
    }
}
