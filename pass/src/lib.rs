//! The MGB pass: an LLVM plugin, for opt and for clang.
//!
//! clang runs it twice on a `.cu` file. On the nvptx64 module, [`device`] leaves what the second run
//! needs to know about the kernels. On the host module, [`host`] finds the GPU tasks and their needs,
//! and places the probes.
//!
//! For a whole program (`-flto`) a compile leaves its host module as it is, with a summary of the device
//! half, and `host` processes all modules at once in the linker.
use std::panic::{AssertUnwindSafe, catch_unwind};

use inkwell::llvm_sys::core::LLVMGetTarget;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

mod assume;
pub mod device;
pub mod host;

/// What `llvmGetPassPluginInfo` returns by value; the layout of LLVM's `PassPluginLibraryInfo`.
#[repr(C)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    plugin_name: *const u8,
    plugin_version: *const u8,
    register: *const (),
    pre_codegen: *const (),
}

unsafe extern "C" {
    fn mgb_plugin_info() -> PassPluginLibraryInfo;
}

/// The entry point by which LLVM finds the plugin.
#[unsafe(no_mangle)]
pub extern "C" fn llvmGetPassPluginInfo() -> PassPluginLibraryInfo {
    // SAFETY: defined in cpp/plugin.cpp, takes nothing and only fills the structure.
    unsafe { mgb_plugin_info() }
}

/// Runs the pass over one module; called by the passes that cpp/plugin.cpp registers.
///
/// # Safety
/// `module` must be a live module that no other thread uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_run_pass(module: LLVMModuleRef) -> bool {
    guarded(|| {
        if is_device(module) {
            // SAFETY: `module` is live: contract of this function.
            unsafe { device::run(module) }
        } else {
            let rewritten = host::run(module);
            // Last, so that the host's half does not see the translated code.
            // SAFETY: `module` is live: contract of this function.
            let linked = unsafe { device::link_kernels(module) };
            rewritten || matches!(linked, Ok(Some(_)))
        }
    })
}

/// Prepares one module of a whole program for the link. True if it is to be left as the front end made it: it
/// has GPU ops.
///
/// # Safety
/// `module` must be a live module that no other thread uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_leave_to_link(module: LLVMModuleRef) -> bool {
    guarded(|| {
        if is_device(module) {
            // SAFETY: `module` is live: contract of this function.
            unsafe { device::run(module) };
            return false;
        }
        let is_left = host::leave_to_link(module);
        // SAFETY: `module` is live: contract of this function.
        let _ = unsafe { device::link_kernels(module) };
        is_left
    })
}

/// Runs the host's half over the merged modules of a whole program.
///
/// # Safety
/// `module` must be a live module that no other thread uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_run_at_link(module: LLVMModuleRef) -> bool {
    guarded(|| host::run_at_link(module))
}

/// Whether `mgb clang` will have the linker run the pass, so that compiles leave modules to it.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_leaves_to_link() -> bool {
    std::env::var_os("MGB_LEAVE_TO_LINK").is_some_and(|value| !value.is_empty())
}

/// False where it panics: nothing may unwind into LLVM.
fn guarded(run: impl FnOnce() -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(false)
}

fn is_device(module: LLVMModuleRef) -> bool {
    // SAFETY: `module` is live (contract of the callers); the target triple is a C string that it owns.
    let triple = unsafe { std::ffi::CStr::from_ptr(LLVMGetTarget(module)) };
    triple.to_bytes().starts_with(b"nvptx")
}
