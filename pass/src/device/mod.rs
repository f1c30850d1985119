//! The device module's half of the pass: kernels as host code, for the software GPU.
//!
//! On the nvptx64 module, [`run`] only keeps the bitcode of the module beside the compile. On the host module
//! of the same source, [`link_kernels`] translates that bitcode for the host and links it in, with tables
//! that describe it to the software GPU (softgpu/include/softgpu_image.h). On a real GPU none of it is ever
//! called.
//!
//! The translation never fails a compile: a kernel that cannot be translated reports the reason when it is
//! launched on a software GPU, and in a remark (`-Rpass-missed=mgb`).
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use inkwell::llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use inkwell::llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::linker::LLVMLinkModules2;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

mod callgraph;
mod coroutines;
mod counters;
pub(crate) mod cubin;
mod divide;
mod entry;
mod escape;
mod estimate;
pub(crate) mod fatbin;
mod gpu_dependence;
mod helpers;
mod image;
mod ir;
mod kernel;
mod layout;
mod linkable;
mod lockstep;
mod module;
pub(crate) mod nvcc;
pub(crate) mod parts;
mod rdc_link;
mod redundancy;
mod registered;
mod runtime_stubs;
mod sanitized;
mod saturate;
mod shared;
mod side_files;
mod slots;
mod spin_waits;
mod support;
mod translate;
pub(crate) mod uses;
mod variables;
mod wrap32;

pub use entry::Parameter;
use ir::{c_string, llvm};
pub(crate) use kernel::twin_stub;
pub(crate) use module::source;
pub(crate) use rdc_link::is_left;
use registered::RegisteredSymbols;
pub(crate) use registered::{OFFLOAD_ENTRY, registered};
pub(crate) use translate::PREFIX;
use translate::Translation;

/// What the translation reports of the kernels of a source.
#[derive(Debug, Clone, Default)]
pub struct DeviceSummary {
    /// One entry per kernel.
    pub kernels: Vec<KernelSummary>,
}

/// What is known of one kernel.
#[derive(Debug, Clone)]
pub struct KernelSummary {
    /// The device's symbol, by which the host registers it.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Bytes of static shared memory per block.
    pub static_shared: u64,
    /// Registers per thread, estimated.
    pub registers: u32,
    /// The launch bound, threads per block; 0 when there is none.
    pub max_threads: u32,
}

/// Keeps the bitcode of a device module for the host run, where `mgb clang` asked for it. Changes the module
/// only where it would not link with other files' (`linkable`), and adds twins where they are wanted
/// (`parts`). A file that cannot be written is not an error: the program then has no host kernels.
///
/// # Safety
/// `module` must be a live module that no other thread uses during the call.
pub unsafe fn run(module: LLVMModuleRef) -> bool {
    let mut changed = linkable::make_linkable(module);
    // Before the module is kept, so that software GPUs run twins too.
    changed |= parts::are_wanted() && parts::add(module);
    let (Some(folder), Some(arch)) = (side_files::folder(), module::architecture(module)) else {
        return changed;
    };
    let buffer = llvm!(LLVMWriteBitcodeToMemoryBuffer(module));
    let (start, size) = (
        llvm!(LLVMGetBufferStart(buffer)),
        llvm!(LLVMGetBufferSize(buffer)),
    );
    // SAFETY: LLVM gives address and length of the buffer, which lives until it is disposed of below.
    let bitcode = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
    let _ = side_files::write(&folder, &module::source(module), &arch, bitcode);
    llvm!(LLVMDisposeMemoryBuffer(buffer));
    changed
}

/// Links the translated kernels of a host module's source into it.
///
/// None when there is no device code to be found. An error leaves the module without host kernels.
/// Call it before or after other changes: all it adds is private, and named `softgpu.*`. A second
/// call does nothing.
///
/// # Safety
/// `host` must be a live module that no other thread uses during the call.
pub unsafe fn link_kernels(host: LLVMModuleRef) -> Result<Option<DeviceSummary>, String> {
    let attempt = AssertUnwindSafe(|| try_link_kernels(host));
    let result = catch_unwind(attempt).unwrap_or_else(|_| Err("the translation failed".to_owned()));
    if let Err(error) = &result
        && let Some(&function) = ir::defined_functions(host).first()
    {
        helpers::remark_missed(
            function,
            "HostKernels",
            &format!("no kernel has host code: {error}"),
        );
    }
    result
}

/// Whether the user wants kernels as host code: unless this variable is `off`.
const HOST_KERNELS: &str = "MGB_HOST_KERNELS";

fn try_link_kernels(host: LLVMModuleRef) -> Result<Option<DeviceSummary>, String> {
    rdc_link::want_link(host);
    if std::env::var_os(HOST_KERNELS).is_some_and(|wanted| wanted == "off") {
        return Ok(None);
    }
    if !llvm!(LLVMGetNamedGlobal(host, image::SYMBOL.as_ptr())).is_null() {
        return Ok(None);
    }
    if let Some(parts) = rdc_link::parts() {
        return add(host, &parts, None).map(|translation| Some(summary(&translation)));
    }
    let source = module::source(host);
    let Some(path) = side_files::folder().and_then(|folder| side_files::find(&folder, &source)) else {
        return Ok(None);
    };
    if rdc_link::is_left(host) {
        if !rdc_link::is_kept(host) {
            rdc_link::keep(host, &path)?;
        }
        return Ok(None);
    }
    let registered = registered::registered(host);
    let translation = add(host, &[path], Some(&registered))?;
    for kernel in &translation.kernels {
        if let (Some(error), Some(&stub)) = (&kernel.error, registered.stubs.get(&kernel.name)) {
            helpers::remark_missed(
                stub,
                "HostKernel",
                &format!(
                    "kernel {} has no host code: {error}",
                    helpers::demangle(&kernel.name)
                ),
            );
        }
    }
    Ok(Some(summary(&translation)))
}

/// Adds the translation of device modules, and the tables that describe it.
fn add(
    host: LLVMModuleRef,
    paths: &[PathBuf],
    registered: Option<&RegisteredSymbols>,
) -> Result<Translation, String> {
    let translation = translate::translate(paths, host)?;
    link(host, &translation)?;
    image::emit(host, &translation, registered);
    hide(host, &translation);
    Ok(translation)
}

/// Moves the translated code into the host module.
fn link(host: LLVMModuleRef, translation: &Translation) -> Result<(), String> {
    let mut code = std::ptr::null_mut();
    let context = llvm!(LLVMGetModuleContext(host));
    if llvm!(LLVMParseBitcodeInContext2(context, translation.code, &mut code)) != 0 {
        return Err("failed to read the translated code back".to_owned());
    }
    sanitized::as_host(host, code);
    if llvm!(LLVMLinkModules2(host, code)) != 0 {
        return Err("failed to link the translated code".to_owned());
    }
    Ok(())
}

/// Makes private what had to be found by name so far.
fn hide(host: LLVMModuleRef, translation: &Translation) {
    let fixed = ["softgpu.self_slot", "softgpu.variables_slot"].map(str::to_owned);
    for name in translation
        .kernels
        .iter()
        .map(|kernel| kernel.entry.clone())
        .chain(fixed)
    {
        let function = llvm!(LLVMGetNamedFunction(host, c_string(&name).as_ptr()));
        if !function.is_null() {
            ir::make_internal(function);
        }
    }
    for name in ["softgpu.self", "softgpu.variables", variables::INITIAL] {
        let global = llvm!(LLVMGetNamedGlobal(host, c_string(name).as_ptr()));
        if !global.is_null() {
            ir::make_internal(global);
        }
    }
}

fn summary(translation: &Translation) -> DeviceSummary {
    let kernels = translation.kernels.iter().map(|kernel| KernelSummary {
        name: kernel.name.clone(),
        parameters: kernel.parameters.clone(),
        static_shared: kernel.static_shared,
        registers: kernel.registers,
        max_threads: kernel.max_threads,
    });
    DeviceSummary {
        kernels: kernels.collect(),
    }
}
