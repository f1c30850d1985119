//! Device code of nvcc's making: which kernels touch which device variables, from the PTX and the machine
//! code that a host's module embeds. What clang's device module shows ([`super::uses`]) is read off PTX here.
//!
//! A program may run any of the images, so what is said holds for all of them. Machine code does not show
//! what its kernels use. It counts as known where the PTX that it was made from is there: embedded beside it,
//! or in the file that nvcc keeps until its host compiler has ended. What cannot be read leaves all of the
//! source unknown.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::LLVMTypeOf;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use super::callgraph;
use super::cubin::Cubin;
use super::fatbin::{self, Embedded, ImageKind};
use super::gpu_dependence;
use super::ir::*;
use super::uses::Uses;

mod beside;
mod flow;
mod module;
mod ptx;
mod published;
mod text;
mod words;

/// What is known of a host's module; none where not all of its device code can be read. `front_end` is the
/// file that nvcc's front end wrote, `registered` are the symbols of the variables that the host registers.
pub fn of_module(
    module: LLVMModuleRef,
    front_end: Option<&Path>,
    registered: &BTreeSet<String>,
) -> Option<Uses> {
    let embedded = Embedded::of(module);
    let bytes = embedded.bytes?;
    let images = fatbin::entries(&bytes)?;
    let mut texts = front_end.map_or(Vec::new(), beside::texts);
    let mut codes = Vec::new();
    for image in &images {
        let content = image.content()?;
        match image.kind {
            ImageKind::Ptx => texts.push(String::from_utf8(content.into_owned()).ok()?),
            ImageKind::Elf => codes.push((image.specific, content)),
            ImageKind::Other => return None,
        }
    }
    let source = SourceContext {
        registered,
        relocatable: embedded.relocatable,
        numbers: numbers(module),
    };
    let mut all = Uses::default();
    let mut targets = BTreeSet::new();
    for text in &texts {
        let module = ptx::read(text.trim_end_matches('\0'))?;
        targets.insert(module.target.to_owned());
        all.add(source.of_ptx(&module));
    }
    for (specific, code) in &codes {
        let code = Cubin::read(code)?;
        let from = code.made_from();
        let suffixes: &[&str] = if *specific { &["", "a", "f"] } else { &[""] };
        let is_covered = from.is_some_and(|number| {
            let mut names = suffixes.iter().map(|suffix| format!("sm_{number}{suffix}"));
            names.any(|name| targets.contains(&name))
        });
        if !is_covered {
            all.add(source.of_code(&code)?);
        }
    }
    (!images.is_empty()).then_some(all)
}

/// Whether the device code of a host's module that nvcc compiled is linked with that of other files.
pub fn is_relocatable(module: LLVMModuleRef) -> bool {
    Embedded::of(module).relocatable
}

/// What is the same for all images of a source.
struct SourceContext<'a> {
    registered: &'a BTreeSet<String>,
    relocatable: bool,
    /// Which parameters of each kernel are numbers, in order, by the names of their stubs.
    numbers: Vec<(String, Vec<bool>)>,
}

/// What nvcc puts before a kernel's symbol to name its host stub, which takes what the kernel takes.
const STUB: &str = "__device_stub_";

/// Which parameters of each host stub are numbers for certain, by the stub's symbol.
fn numbers(host: LLVMModuleRef) -> Vec<(String, Vec<bool>)> {
    let stubs = defined_functions(host)
        .into_iter()
        .map(|function| (name(function), function));
    let is_number = |parameter| kind(llvm!(LLVMTypeOf(parameter))) != LLVMTypeKind::LLVMPointerTypeKind;
    stubs
        .filter(|(name, _)| name.contains(STUB))
        .map(|(name, stub)| (name, parameters(stub).into_iter().map(is_number).collect()))
        .collect()
}

impl SourceContext<'_> {
    /// Whether a symbol is of something that nobody writes: strings and tables of virtual functions, which
    /// have names that no variable of a program has.
    fn is_constant(&self, symbol: &str) -> bool {
        const CONSTANTS: [&str; 5] = ["$str", "__unnamed_", "_ZTV", "_ZTI", "_ZTS"];
        CONSTANTS.iter().any(|prefix| symbol.starts_with(prefix)) && !self.registered.contains(symbol)
    }

    /// Whether the host knows that a parameter of a kernel, from 0, is no address.
    fn is_number(&self, kernel: &str, parameter: usize) -> bool {
        let named = format!("{STUB}{kernel}");
        // Mangled, a name has its length before it.
        let named = format!("{}{named}", named.len());
        let stub = self.numbers.iter().find(|(stub, _)| stub.contains(&named));
        stub.and_then(|(_, numbers)| numbers.get(parameter)) == Some(&true)
    }

    fn of_ptx(&self, module: &ptx::PtxModule) -> Uses {
        let flow = flow::follow(module);
        let mut uses = Uses {
            published: published::of_module(module, |kernel, at| self.is_number(kernel, at)),
            ..Uses::default()
        };
        let mut everywhere = BTreeSet::new();
        let mut symbols = BTreeMap::new();
        for (at, variable) in module.variables.iter().enumerate() {
            if self.is_constant(variable.name) {
                continue;
            }
            // What other files see they may write, and hand its address to kernels of this one.
            let is_shared = variable.is_extern || (self.relocatable && variable.is_visible);
            let escapes = flow.escaped.contains(&at) || is_shared;
            let symbol = variable.name.to_owned();
            uses.variables.insert(symbol.clone(), variable.bytes);
            if escapes || flow.written.contains(&at) {
                uses.written.insert(symbol.clone());
            }
            if escapes {
                everywhere.insert(symbol.clone());
            }
            symbols.insert(at, symbol);
        }
        for (at, kernel) in module
            .functions
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_kernel)
        {
            let reach = flow::reach(module, at);
            let known = reach.declared.iter().all(|name| callgraph::is_of_system(name));
            let touched: BTreeSet<String> = reach
                .variables
                .iter()
                .filter_map(|at| symbols.get(at))
                .cloned()
                .collect();
            let mut ties = BTreeSet::new();
            let mut tie = |applies: bool, text: &str| {
                if applies {
                    ties.insert(text.to_owned());
                }
            };
            tie(!known, gpu_dependence::CALLS_UNKNOWN);
            tie(reach.calls_pointer, gpu_dependence::CALLS_POINTER);
            tie(reach.gives_functions, gpu_dependence::GIVES_FUNCTION);
            let gives = reach
                .variables
                .iter()
                .any(|at| flow.escaped.contains(at) && symbols.contains_key(at));
            tie(gives, gpu_dependence::GIVES_VARIABLE);
            tie(reach.declared.contains("malloc"), gpu_dependence::ALLOCATES);
            tie(reach.uses_textures, gpu_dependence::USES_TEXTURE);
            uses.ties.insert(kernel.name.to_owned(), ties);
            let touched = (known && !reach.calls_pointer).then(|| &touched | &everywhere);
            uses.kernels.insert(kernel.name.to_owned(), touched);
        }
        uses
    }

    /// Of machine code without its PTX: where there is no variable, nothing can use one.
    fn of_code(&self, code: &Cubin) -> Option<Uses> {
        let is_constant = |name: &str| self.is_constant(name);
        code.uses_none(is_constant, callgraph::is_of_system)
            .then_some(())?;
        let mut uses = Uses::default();
        for (kernel, _) in code.kernels()? {
            let tie = "is known as machine code only, which does not show whether it keeps addresses";
            uses.ties.insert(kernel.clone(), BTreeSet::from([tie.to_owned()]));
            uses.published
                .insert(kernel.clone(), BTreeSet::from([tie.to_owned()]));
            uses.kernels.insert(kernel, Some(BTreeSet::new()));
        }
        Some(uses)
    }
}
