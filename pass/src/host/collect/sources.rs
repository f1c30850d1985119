//! Sources: how the device code of each source file uses its variables, and how a compile keeps that for the
//! link.
//!
//! A compile reads the device modules that are kept beside it, or what nvcc has embedded. The linker sees
//! host modules only, so a module that is left to it carries what the device modules show, as metadata that
//! refers to the stubs and shadows themselves: two files may have kernels and variables of the same name. It
//! also carries the names of parameters and variables, since the linker drops those.
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_uint};

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use crate::device::{self, uses::Uses};
use crate::host::collect::Collected;
use crate::host::ir::helpers;
use crate::host::ir::{self, Value};

/// The named metadata: a node for each source, of the uses as JSON, the stubs and the shadows.
const KEPT: &CStr = c"mgb.sources";
/// The metadata of functions and of their variables with names.
const NAMES: &str = "mgb.names";

/// What is known of one source.
pub struct SourceFacts {
    /// What its kernels do to its device variables.
    pub uses: Uses,
    /// The kernels' symbols, by their stubs.
    pub stubs: HashMap<Value, String>,
    /// The variables' symbols, by their shadows.
    pub shadows: HashMap<Value, String>,
}

/// What is known of the source that is being compiled; none where its device code is not known.
pub fn compiled(collected: &Collected) -> Option<SourceFacts> {
    let module = collected.module;
    let registered = device::registered(module);
    let uses = match (collected.by_nvcc, &collected.front_end) {
        (false, _) => device::uses::of_source(&device::source(module))?,
        (true, front_end) => {
            let symbols = registered.variables.keys().cloned().collect();
            device::nvcc::of_module(module, front_end.as_deref(), &symbols)?
        }
    };
    let by_value = |all: HashMap<String, LLVMValueRef>| {
        let turned = all.into_iter().filter_map(|(symbol, raw)| {
            let value = helpers::base_and_offset(Value::from_raw(raw)?).0;
            Some((value, symbol))
        });
        turned.collect::<HashMap<Value, String>>()
    };
    Some(SourceFacts {
        uses,
        stubs: by_value(registered.stubs),
        shadows: by_value(registered.variables),
    })
}

/// Keeps what is known of a module's source in it, for the link.
pub fn keep(module: LLVMModuleRef, source: &SourceFacts) {
    let uses = serde_json::to_string(&source.uses).expect("uses hold strings and numbers only");
    // SAFETY: a live module and live globals of it; its context makes every node; strings are passed with
    // their lengths.
    unsafe {
        let context = LLVMGetModuleContext(module);
        let string = |text: &str| LLVMMDStringInContext2(context, text.as_ptr().cast(), text.len());
        let node =
            |mut parts: Vec<LLVMMetadataRef>| LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len());
        let pairs = |globals: &HashMap<Value, String>| {
            // Sorted: the same source gives the same object.
            let sorted: BTreeMap<&String, Value> =
                globals.iter().map(|(&value, symbol)| (symbol, value)).collect();
            let parts = sorted
                .into_iter()
                .flat_map(|(symbol, value)| [string(symbol), LLVMValueAsMetadata(value.raw())]);
            node(parts.collect())
        };
        let whole = node(vec![string(&uses), pairs(&source.stubs), pairs(&source.shadows)]);
        LLVMAddNamedMetadataOperand(module, KEPT.as_ptr(), LLVMMetadataAsValue(context, whole));
    }
}

/// What the compiles of a linked module kept.
pub fn kept(module: LLVMModuleRef) -> Vec<SourceFacts> {
    // SAFETY: a live module and a C string; as many places as LLVM says that it fills.
    let nodes = unsafe {
        let count = LLVMGetNamedMetadataNumOperands(module, KEPT.as_ptr());
        let mut nodes = vec![std::ptr::null_mut(); count as usize];
        LLVMGetNamedMetadataOperands(module, KEPT.as_ptr(), nodes.as_mut_ptr());
        nodes
    };
    nodes.into_iter().filter_map(source_of).collect()
}

/// Reads a node; none for what `keep` has not written.
fn source_of(node: LLVMValueRef) -> Option<SourceFacts> {
    let [uses, stubs, shadows] = parts(node)[..] else {
        return None;
    };
    Some(SourceFacts {
        uses: serde_json::from_str(&text(uses)?).ok()?,
        stubs: globals(stubs),
        shadows: globals(shadows),
    })
}

/// The pairs of a symbol and its global. A global that the linker has dropped is null.
fn globals(node: LLVMValueRef) -> HashMap<Value, String> {
    let parts = parts(node);
    let pairs = parts.chunks_exact(2);
    pairs
        .filter_map(|pair| Some((Value::from_raw(pair[1])?, text(pair[0])?)))
        .collect()
}

/// Keeps the names of parameters and variables.
pub fn keep_names(module: LLVMModuleRef) {
    let kind = names_kind(module);
    for function in ir::functions(module).filter(|function| !function.is_declaration()) {
        let parameters: Vec<String> = function.parameters().map(Value::name).collect();
        if parameters.iter().any(|name| !name.is_empty()) {
            // SAFETY: a live function, and a node of its context.
            unsafe { LLVMGlobalSetMetadata(function.raw(), kind, strings(module, &parameters)) };
        }
        for variable in variables(function).filter(|variable| !variable.name().is_empty()) {
            // SAFETY: a live instruction, and a node of its context.
            unsafe {
                let node =
                    LLVMMetadataAsValue(LLVMGetModuleContext(module), strings(module, &[variable.name()]));
                LLVMSetMetadata(variable.raw(), kind, node);
            }
        }
    }
}

/// Gives parameters and variables the names back that their compiles kept.
pub fn restore_names(module: LLVMModuleRef) {
    let kind = names_kind(module);
    // SAFETY: the live module's own context.
    unsafe { LLVMContextSetDiscardValueNames(LLVMGetModuleContext(module), 0) };
    for function in ir::functions(module).filter(|function| !function.is_declaration()) {
        for (parameter, name) in function.parameters().zip(kept_names(function, kind)) {
            parameter.set_name(&name);
        }
        // SAFETY: a live function; metadata that is not there is nothing.
        unsafe { LLVMGlobalEraseMetadata(function.raw(), kind) };
        for variable in variables(function).collect::<Vec<_>>() {
            // SAFETY: a live instruction; null takes its metadata off.
            let node = unsafe {
                let node = LLVMGetMetadata(variable.raw(), kind);
                LLVMSetMetadata(variable.raw(), kind, std::ptr::null_mut());
                node
            };
            if let Some(name) = parts(node).first().copied().and_then(text) {
                variable.set_name(&name);
            }
        }
    }
}

fn variables(function: Value) -> impl Iterator<Item = Value> {
    function
        .instructions()
        .filter(|one| one.is(LLVMOpcode::LLVMAlloca))
}

/// The names of a function's parameters; too few where there are none.
fn kept_names(function: Value, kind: c_uint) -> Vec<String> {
    // SAFETY: a live function of a live module; LLVM gives an array of `count` entries, which is disposed of
    // once, here.
    let node = unsafe {
        let mut count = 0;
        let entries = LLVMGlobalCopyAllMetadata(function.raw(), &mut count);
        let found = (0..count as c_uint).find(|&at| LLVMValueMetadataEntriesGetKind(entries, at) == kind);
        let node = found.map(|at| LLVMValueMetadataEntriesGetMetadata(entries, at));
        LLVMDisposeValueMetadataEntries(entries);
        let context = LLVMGetModuleContext(LLVMGetGlobalParent(function.raw()));
        node.map(|node| LLVMMetadataAsValue(context, node))
    };
    let parts = node.map(parts).unwrap_or_default();
    parts
        .into_iter()
        .map(|part| text(part).unwrap_or_default())
        .collect()
}

fn names_kind(module: LLVMModuleRef) -> c_uint {
    // SAFETY: the live module's own context; the name's address and length.
    unsafe {
        LLVMGetMDKindIDInContext(
            LLVMGetModuleContext(module),
            NAMES.as_ptr().cast(),
            NAMES.len() as c_uint,
        )
    }
}

fn strings(module: LLVMModuleRef, texts: &[String]) -> LLVMMetadataRef {
    // SAFETY: the live module's own context; the strings' addresses and lengths.
    unsafe {
        let context = LLVMGetModuleContext(module);
        let string = |text: &String| LLVMMDStringInContext2(context, text.as_ptr().cast(), text.len());
        let mut parts: Vec<LLVMMetadataRef> = texts.iter().map(string).collect();
        LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len())
    }
}

fn parts(node: LLVMValueRef) -> Vec<LLVMValueRef> {
    // SAFETY: a node of the module, and as many places as LLVM says that it fills.
    unsafe {
        if node.is_null() || LLVMIsAMDNode(node).is_null() {
            return Vec::new();
        }
        let mut parts = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(node) as usize];
        LLVMGetMDNodeOperands(node, parts.as_mut_ptr());
        parts
    }
}

fn text(string: LLVMValueRef) -> Option<String> {
    // SAFETY: null is asked for first; LLVM gives address and length of a string that the context owns.
    unsafe {
        if string.is_null() || LLVMIsAMDString(string).is_null() {
            return None;
        }
        let mut length = 0;
        let bytes = LLVMGetMDString(string, &mut length);
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize);
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}
