//! The source that a module was made from, if nvcc's front end ran first: clang then reads a file with a
//! temporary name, whose `#line` directives name the source. The module gets the name of the source, and so
//! does its unit of debug information, which tells the sources of a whole program apart.
use std::path::{Path, PathBuf};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMDIFileGetFilename, LLVMDIScopeGetFile, LLVMGetSubprogram};
use inkwell::llvm_sys::prelude::{LLVMMetadataRef, LLVMModuleRef};

use crate::host::ir::{self, Value};

/// What nvcc calls the output of its front end, after the source's name without its extension.
const MADE: &str = ".cudafe1.cpp";
/// What it puts before that where the files are not kept, up to a number and an underscore.
const TEMPORARY: &str = "tmpxft_";

/// Gives the module its source's name. The path of the file that nvcc's front end wrote, if the module was
/// made from that.
pub fn name(module: LLVMModuleRef) -> Option<PathBuf> {
    let mut length = 0;
    // SAFETY: LLVM gives the address and length of a string that lives as long as the module is not renamed.
    let given = unsafe {
        let name = LLVMGetSourceFileName(module, &mut length);
        std::slice::from_raw_parts(name.cast::<u8>(), length)
    };
    let given = String::from_utf8_lossy(given).into_owned();
    let whole = stem(&given)?;
    let short = without_architecture(whole);
    let source = |stem: &str| {
        let is_source = |(_, name): &(_, String)| Path::new(name).file_stem().is_some_and(|one| one == stem);
        ir::functions(module).filter_map(file).find(is_source)
    };
    let found = source(whole).or_else(|| source(short));
    let source = found
        .as_ref()
        .map_or_else(|| format!("{short}.cu"), |(_, name)| name.clone());
    // SAFETY: a live module, and the name's address and length.
    unsafe { LLVMSetSourceFileName(module, source.as_ptr().cast(), source.len()) };
    if let Some((file, _)) = found {
        name_units(module, file);
    }
    Some(PathBuf::from(&given))
}

/// Gives the module's units of debug information this file.
fn name_units(module: LLVMModuleRef, file: LLVMMetadataRef) {
    /// Where a unit has it.
    const FILE: u32 = 0;
    const UNITS: &std::ffi::CStr = c"llvm.dbg.cu";
    // SAFETY: a live module and a C string; as many places as LLVM says that it fills; its units are nodes.
    unsafe {
        let count = LLVMGetNamedMetadataNumOperands(module, UNITS.as_ptr());
        let mut units = vec![std::ptr::null_mut(); count as usize];
        LLVMGetNamedMetadataOperands(module, UNITS.as_ptr(), units.as_mut_ptr());
        for unit in units {
            LLVMReplaceMDNodeOperandWith(unit, FILE, file);
        }
    }
}

/// The source's name without its extension; none where the file is not of nvcc's making.
fn stem(given: &str) -> Option<&str> {
    let name = Path::new(given).file_name()?.to_str()?.strip_suffix(MADE)?;
    let Some(rest) = name.strip_prefix(TEMPORARY) else {
        return Some(name);
    };
    Some(rest.split_once('-')?.1.split_once('_')?.1)
}

/// With several architectures nvcc puts the last one's name behind the source's.
fn without_architecture(stem: &str) -> &str {
    match stem.rsplit_once(".compute_") {
        Some((source, number)) if number.starts_with(|sign: char| sign.is_ascii_digit()) => source,
        _ => stem,
    }
}

/// The file that a function's lines are of, by the debug information, and its name.
fn file(function: Value) -> Option<(LLVMMetadataRef, String)> {
    let mut length = 0;
    // SAFETY: a live function; null results are checked for, and the name lives as long as the module.
    let (file, name) = unsafe {
        let subprogram = LLVMGetSubprogram(function.raw());
        if subprogram.is_null() {
            return None;
        }
        let file = LLVMDIScopeGetFile(subprogram);
        if file.is_null() {
            return None;
        }
        let name = LLVMDIFileGetFilename(file, &mut length);
        if name.is_null() || length == 0 {
            return None;
        }
        (
            file,
            std::slice::from_raw_parts(name.cast::<u8>(), length as usize),
        )
    };
    Some((file, String::from_utf8_lossy(name).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nvcc_makes() {
        assert_eq!(
            stem("/tmp/tmpxft_00003739_00000000-6_a_b.cudafe1.cpp"),
            Some("a_b")
        );
        assert_eq!(stem("kept/a.b.cudafe1.cpp"), Some("a.b"));
        assert_eq!(stem("a.cu"), None);
        assert_eq!(without_architecture("a.compute_90a"), "a");
        assert_eq!(without_architecture("a.compute_all"), "a.compute_all");
    }
}
