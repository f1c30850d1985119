//! Kernels that can be run in parts: which of them can, and the second kernel, beside each, that does.
//!
//! A *twin* takes its blocks by tickets, so that its launch can stop between two blocks and go on later, with
//! more or fewer workers, on another GPU too. Where its workers must take one block each, its
//! launches are *slices*. The original
//! stays as it is. See docs/design/parts.md.
use inkwell::llvm_sys::LLVMAttributeFunctionIndex;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use mgb_catalogue::report::KernelParts;

mod barriers;
mod eligible;
mod frame;
mod gone;
mod kind;
mod memory;
mod obstacle;
mod replicate;
mod tickets;
mod twin;

use super::callgraph::CallGraph;
use super::ir::*;
pub use super::kernel::{is_twin, twin_of};
use super::module;
use super::translate::CLEAN_UP;
use frame::Workers;
pub use kind::PartsKind;
pub use obstacle::words;

/// The attribute of a kernel that says how it can be run in parts.
const ATTRIBUTE: &str = "mgb-parts";

/// What that attribute begins with, before the obstacles.
const ANY_ROWS: &str = "any-rows";
const WHOLE_ROWS: &str = "whole-rows";

/// Whether the user wants kernels that can be run in parts.
pub fn are_wanted() -> bool {
    std::env::var_os("MGB_PARTS")
        .is_some_and(|value| !matches!(value.as_encoded_bytes(), b"" | b"0" | b"off"))
}

/// Marks each kernel of a device module with how it can be run in parts, and adds twins. True when the module
/// was changed.
pub fn add(module: LLVMModuleRef) -> bool {
    let kernels = module::kernels(module);
    if !barriers::are_known() || kernels.is_empty() || kernels.iter().any(|&kernel| is_twin(&name(kernel))) {
        return false;
    }
    let graph = CallGraph::new(module);
    let found = judge(module);
    let mut judged = Vec::new();
    for kernel in kernels {
        if let Some((_, parts)) = found.iter().find(|(of, _)| *of == name(kernel)) {
            judged.push((kernel, eligible::confirm(&graph, kernel, parts.clone())));
        }
    }
    for (kernel, parts) in &judged {
        let parts_by = parts.parts();
        if parts_by != KernelParts::Whole {
            let workers = match parts_by {
                KernelParts::Slices => Workers::TakeOne,
                _ if eligible::have_in_common(&graph, *kernel) => Workers::LoopTogether,
                _ => Workers::Loop,
            };
            twin::add(module, *kernel, &twin_of(&name(*kernel)), workers);
        }
        set_string_attribute(*kernel, ATTRIBUTE, &text(parts));
    }
    !judged.is_empty()
}

/// How the kernels of a module can be run in parts, by their symbols.
fn judge(module: LLVMModuleRef) -> Vec<(String, PartsKind)> {
    // The optimiser's usual clean-up shows what is the same for a block, on a copy.
    let copy = llvm!(LLVMCloneModule(module));
    for function in defined_functions(copy) {
        for attribute in ["optnone", "noinline"] {
            llvm!(LLVMRemoveEnumAttributeAtIndex(
                function,
                LLVMAttributeFunctionIndex,
                attribute_kind(attribute)
            ));
        }
    }
    let is_clean = module::run_passes(copy, CLEAN_UP).is_ok();
    let graph = CallGraph::new(copy);
    let judged = module::kernels(copy).into_iter().map(|kernel| {
        let parts = eligible::judge(&graph, copy, kernel);
        (name(kernel), parts)
    });
    let found = if is_clean { judged.collect() } else { Vec::new() };
    llvm!(LLVMDisposeModule(copy));
    found
}

/// How a kernel can be run in parts, as [`add`] has marked it.
pub fn of(kernel: LLVMValueRef) -> Option<PartsKind> {
    let text = string_attribute(kernel, ATTRIBUTE)?;
    let mut words = text.split(',');
    Some(PartsKind {
        whole_rows: words.next() == Some(WHOLE_ROWS),
        obstacles: words.filter_map(obstacle::named).collect(),
        parameters: eligible::sizes(kernel),
    })
}

fn text(parts: &PartsKind) -> String {
    let rows = if parts.whole_rows { WHOLE_ROWS } else { ANY_ROWS };
    let codes = parts.obstacles.iter().map(|one| one.to_string());
    let words: Vec<String> = [rows.to_owned()].into_iter().chain(codes).collect();
    words.join(",")
}
