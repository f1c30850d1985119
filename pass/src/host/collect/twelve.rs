//! Adapts programs that are compiled with the headers of CUDA 12 to the runtime of CUDA 13. A function that
//! the headers declare differently gets its name in CUDA 13, or goes through lazyrt, which converts the
//! arguments; what cannot be adapted is a compile error.
//!
//! This runs first, since the catalogue of the other phases is that of CUDA 13.
use std::env;

use inkwell::llvm_sys::core::{LLVMDeleteFunction, LLVMGetNamedFunction, LLVMReplaceAllUsesWith};
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use mgb_catalogue::twelve::{Twelve, twelve};

use crate::host::ir::helpers;
use crate::host::ir::{self, Value};

/// Set by the wrapper to the version of the headers, such as `12.4`, where it is not CUDA 13's.
const VARIABLE: &str = "MGB_CUDA_HEADERS";
/// The prefix of the functions of lazyrt for programs of CUDA 12.
const BRIDGE: &str = "mgb_cuda12_";

/// Adapts the module if CUDA 12's headers are used. True when it was changed.
pub fn adapt(module: LLVMModuleRef) -> bool {
    match env::var(VARIABLE) {
        Ok(version) if version.starts_with("12.") => adapt_from(module, &version),
        _ => false,
    }
}

fn adapt_from(module: LLVMModuleRef, version: &str) -> bool {
    let declared = ir::functions(module).filter(|one| one.is_declaration() && one.has_uses());
    let found: Vec<(Value, String, Twelve)> = declared
        .filter_map(|function| {
            let name = function.name();
            let what = twelve(plain(&name).0)?;
            Some((function, name, what))
        })
        .collect();
    // CUDA 13's name of one may be CUDA 12's of another.
    for (function, name, what) in &found {
        match what {
            Twelve::Bridged if plain(name).1.is_empty() => function.set_name(&format!("{BRIDGE}{name}")),
            Twelve::Bridged => refuse(
                module,
                name,
                version,
                "its arguments differ, and it has no form for the per-thread default stream",
            ),
            Twelve::Refused(why) => refuse(module, name, version, why),
            Twelve::Named(_) => {}
        }
    }
    for (function, name, what) in &found {
        if let Twelve::Named(new) = what {
            rename(module, *function, &format!("{new}{}", plain(name).1));
        }
    }
    !found.is_empty()
}

/// The name, and the suffix of its form for the per-thread default stream.
fn plain(name: &str) -> (&str, &str) {
    for end in ["_ptsz", "_ptds"] {
        if let Some(plain) = name.strip_suffix(end) {
            return (plain, end);
        }
    }
    (name, "")
}

fn rename(module: LLVMModuleRef, function: Value, name: &str) {
    let text = std::ffi::CString::new(name).expect("names hold no zero byte");
    // SAFETY: a live module and a C string; both functions are of the module, and the old one has no uses
    // when it is deleted.
    unsafe {
        let present = LLVMGetNamedFunction(module, text.as_ptr());
        if present.is_null() {
            function.set_name(name);
        } else {
            LLVMReplaceAllUsesWith(function.raw(), present);
            LLVMDeleteFunction(function.raw());
        }
    }
}

fn refuse(module: LLVMModuleRef, name: &str, version: &str, why: &str) {
    let text = format!(
        "mgb: {name} of CUDA {version} cannot run with CUDA 13's runtime, which MGB uses: {why}; compile with CUDA 13, or \
         without MGB"
    );
    helpers::diagnose(module, true, &text);
}
