//! Ties: what a kernel leaves in memory, or takes from there, that is valid on its own GPU only. Objects of
//! launches without ties can continue on another GPU: they hold only numbers and addresses of the arena. That the
//! launches of other tasks do not reach them there is `escape`'s to prove: only static tasks count as movable.
use std::collections::{BTreeSet, HashMap};

use inkwell::llvm_sys::prelude::*;

use super::callgraph::{CallGraph, Reach};
use super::ir::*;

/// Each tie, in words that follow "the kernel".
pub const CALLS_UNKNOWN: &str = "calls functions that are not known";
pub const CALLS_POINTER: &str = "calls through pointers";
pub const GIVES_FUNCTION: &str = "uses the address of a function";
pub const GIVES_VARIABLE: &str = "gives away the address of a device variable";
pub const ALLOCATES: &str = "allocates memory itself";
pub const USES_TEXTURE: &str = "uses a texture or surface";

/// The intrinsics that read and write textures and surfaces.
const TEXTURES: [&str; 8] = [
    "llvm.nvvm.tex.",
    "llvm.nvvm.tld4.",
    "llvm.nvvm.suld.",
    "llvm.nvvm.sust.",
    "llvm.nvvm.txq.",
    "llvm.nvvm.suq.",
    "llvm.nvvm.texsurf.",
    "__nv_tex_surf_handler",
];
/// The same in assembly.
const INSTRUCTIONS: [&str; 7] = ["tex.", "tld4.", "suld.", "sust.", "sured.", "txq.", "suq."];

/// The ties of a kernel. `escaped` are the variables whose addresses may
/// be anywhere.
pub fn of(
    graph: &CallGraph,
    reach: &Reach,
    known: bool,
    escaped: &BTreeSet<String>,
    symbols: &HashMap<LLVMValueRef, String>,
) -> BTreeSet<String> {
    let mut ties = BTreeSet::new();
    let mut tie = |text: &str| ties.insert(text.to_owned());
    if !known {
        tie(CALLS_UNKNOWN);
    }
    if reach.calls_pointer {
        tie(CALLS_POINTER);
    }
    if graph.gives_functions(reach) {
        tie(GIVES_FUNCTION);
    }
    if reach
        .globals
        .iter()
        .filter_map(|at| symbols.get(at))
        .any(|one| escaped.contains(one))
    {
        tie(GIVES_VARIABLE);
    }
    for &function in &reach.functions {
        let name = name(function);
        if name == "malloc" {
            tie(ALLOCATES);
        }
        if TEXTURES.iter().any(|one| name.starts_with(one)) || assembles_texture(function) {
            tie(USES_TEXTURE);
        }
    }
    ties
}

fn assembles_texture(function: LLVMValueRef) -> bool {
    instructions(function)
        .into_iter()
        .filter(|&at| is_call(at))
        .filter_map(assembly_text)
        .any(|text| INSTRUCTIONS.iter().any(|one| text.contains(one)))
}
