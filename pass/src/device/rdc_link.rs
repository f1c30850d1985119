//! Device code that is linked across files (`-fgpu-rdc`).
//!
//! No file's code can be translated by itself: its kernels may call functions of other files. So each
//! object keeps the bitcode of its device module in a section of its own, which linkers leave out of
//! programs. `mgb clang` collects these parts at the link and compiles one more object, for which
//! [`parts`] names them; they are merged and translated there. That object cannot name the stubs of
//! kernels, which may be private to their files: the software GPU finds its kernels and variables by the
//! names that the CUDA runtime is told.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::linker::LLVMLinkModules2;
use inkwell::llvm_sys::prelude::{LLVMContextRef, LLVMModuleRef, LLVMValueRef};
use inkwell::llvm_sys::{LLVMLinkage, LLVMVisibility};

use super::ir::*;
use super::module::{self, Module};
use super::{helpers, side_files};

/// The section of a part. cli/src/clang/across.rs reads it.
const SECTION: &str = ".mgb.device";
/// What a part begins with; its architecture's number and its bytes follow, 4 and 8 bytes, little-endian.
/// Linkers that merge objects put parts behind each other, each padded to [`ALIGN`].
const MAGIC: &[u8; 4] = b"MGB1";
const ALIGN: usize = 8;
/// Where clang leaves device code for the link.
const CLANGS: &str = ".llvm.offloading";
/// What an object refers to whose device code is not linked. Where `mgb clang` links device code it defines
/// this: a link without that fails, by a name that says why.
const WANTED: &CStr = c"mgb_device_code_is_not_linked";
/// Names a folder of parts to merge and translate.
const VARIABLE: &str = "MGB_DEVICE_PARTS";

/// Whether clang leaves the device code of this host module to the link.
pub fn is_left(host: LLVMModuleRef) -> bool {
    globals(host).into_iter().any(|global| section(global) == CLANGS)
}

/// Has the program's link fail if it does not link this module's device code: it would lack its kernels, and
/// nothing would say so before it runs. Only under `mgb clang`, whose links define what is wanted.
pub fn want_link(host: LLVMModuleRef) {
    if side_files::folder().is_none()
        || !is_left(host)
        || !llvm!(LLVMGetNamedGlobal(host, WANTED.as_ptr())).is_null()
    {
        return;
    }
    let context = llvm!(LLVMGetModuleContext(host));
    let wanted = llvm!(LLVMAddGlobal(
        host,
        LLVMInt8TypeInContext(context),
        WANTED.as_ptr()
    ));
    // A shared library is a link of its own.
    llvm!(LLVMSetVisibility(wanted, LLVMVisibility::LLVMHiddenVisibility));
    let pointer = llvm!(LLVMPointerTypeInContext(context, 0));
    let refers = llvm!(LLVMAddGlobal(host, pointer, c"mgb.device.wanted".as_ptr()));
    llvm!(LLVMSetInitializer(refers, wanted));
    llvm!(LLVMSetGlobalConstant(refers, 1));
    llvm!(LLVMSetLinkage(refers, LLVMLinkage::LLVMPrivateLinkage));
    helpers::keep(host, refers);
}

/// Keeps the bitcode in a file as a part of the program's device code.
///
/// # Errors
/// When it cannot be read.
pub fn keep(host: LLVMModuleRef, path: &Path) -> Result<(), String> {
    let bitcode = fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    let mut part = MAGIC.to_vec();
    part.extend(arch(path).to_le_bytes());
    part.extend((bitcode.len() as u64).to_le_bytes());
    part.extend(bitcode);
    part.resize(part.len().next_multiple_of(ALIGN), 0);
    helpers::embed(host, &part, SECTION, ALIGN as u64);
    Ok(())
}

/// Whether the module has its part already.
pub fn is_kept(host: LLVMModuleRef) -> bool {
    globals(host).into_iter().any(|global| section(global) == SECTION)
}

/// The files of the parts that this compile is to translate, in the order of the link; none if it is one of
/// a source.
pub fn parts() -> Option<Vec<PathBuf>> {
    let folder = env::var_os(VARIABLE).filter(|folder| !folder.is_empty())?;
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "bc"))
        .collect();
    files.sort();
    Some(files)
}

/// Reads device modules into one. Those of archives are taken as linkers take them: where they define what is
/// missing; and if they have kernels, which host code may launch, unless they define something again.
///
/// # Errors
/// When one cannot be read, or one of an object defines what another one defines as well.
pub fn merge(context: LLVMContextRef, paths: &[PathBuf]) -> Result<Module, String> {
    let (members, objects): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(|path| is_member(path));
    let merged = Module::empty(context);
    for path in objects {
        add(&merged, Module::read(context, path)?)?;
    }
    let mut members: Vec<Module> = members
        .into_iter()
        .map(|path| Module::read(context, path))
        .collect::<Result<_, _>>()?;
    while let Some(at) = members.iter().position(|member| supplies(member, &merged)) {
        add(&merged, members.remove(at))?;
    }
    for member in members {
        let has_kernels = !module::kernels(member.raw()).is_empty();
        if has_kernels && !defined(member.raw()).any(|name| is_defined(&merged, &name)) {
            add(&merged, member)?;
        }
    }
    Ok(merged)
}

fn add(merged: &Module, other: Module) -> Result<(), String> {
    let (to, from) = (merged.raw(), other.into_raw());
    let source = module::source(from);
    if llvm!(LLVMGetFirstFunction(to)).is_null() {
        llvm!(LLVMSetTarget(to, LLVMGetTarget(from)));
        llvm!(LLVMSetDataLayout(to, LLVMGetDataLayoutStr(from)));
    }
    if llvm!(LLVMLinkModules2(to, from)) == 0 {
        return Ok(());
    }
    Err(format!(
        "failed to link the device code of {source} with that of other files"
    ))
}

fn is_member(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().contains("-member."))
}

/// Whether a module defines what another one lacks.
fn supplies(member: &Module, merged: &Module) -> bool {
    defined(member.raw()).any(|name| named(merged, &name).any(is_declaration))
}

/// What a module defines for others, and only once in a program.
fn defined(module: LLVMModuleRef) -> impl Iterator<Item = String> {
    functions(module)
        .into_iter()
        .chain(globals(module))
        .filter(|&at| !is_declaration(at) && llvm!(LLVMGetLinkage(at)) == LLVMLinkage::LLVMExternalLinkage)
        .map(name)
}

fn is_defined(module: &Module, name: &str) -> bool {
    named(module, name).any(|at| !is_declaration(at))
}

/// The function or the variable of a name.
fn named(module: &Module, name: &str) -> impl Iterator<Item = LLVMValueRef> {
    let name = c_string(name);
    let function = llvm!(LLVMGetNamedFunction(module.raw(), name.as_ptr()));
    let global = llvm!(LLVMGetNamedGlobal(module.raw(), name.as_ptr()));
    [function, global].into_iter().filter(|at| !at.is_null())
}

/// The number of the architecture that a module in this file was compiled for.
pub fn arch(path: &Path) -> u32 {
    side_files::arch_number(&path.file_stem().unwrap_or_default().to_string_lossy())
}

/// The section of a global; empty for the usual one.
fn section(global: LLVMValueRef) -> String {
    let text = llvm!(LLVMGetSection(global));
    if text.is_null() {
        return String::new();
    }
    // SAFETY: LLVM gives a C string that the module owns.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
