//! Names: which source variable a value stands for, so that formulas read like the source.
//!
//! Promotion to registers loses the variables. So before it, every value that is stored to a
//! variable's memory is marked with the variable's name, as metadata, and after the analysis the
//! marks are taken off again.
use std::collections::HashMap;
use std::ffi::c_uint;

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMContextRef;

use crate::host::ir::Value;
use crate::host::ir::helpers;

/// The metadata kind of a mark.
const KIND: &str = "mgb.name";

/// Names for the values of one module.
pub struct ValueNames {
    context: LLVMContextRef,
    kind: c_uint,
    /// Parameters cannot carry metadata.
    parameters: HashMap<Value, String>,
}

impl ValueNames {
    /// For a module of this context.
    pub fn new(context: LLVMContextRef) -> Self {
        // SAFETY: a live context; the name's address and length.
        let kind = unsafe { LLVMGetMDKindIDInContext(context, KIND.as_ptr().cast(), KIND.len() as c_uint) };
        Self {
            context,
            kind,
            parameters: HashMap::new(),
        }
    }

    /// Marks what the function stores to its variables. The first variable a value goes to names it;
    /// what only goes to one through a conversion is named after it last.
    pub fn mark(&mut self, function: Value) {
        let mut converted = Vec::new();
        for store in function
            .instructions()
            .filter(|instruction| instruction.is(LLVMOpcode::LLVMStore))
        {
            let (value, slot) = (store.operand(0), store.operand(1));
            // A wrapper's parameter, inlined here, is less specific than the caller's argument.
            let own = slot.is(LLVMOpcode::LLVMAlloca) && !is_inlined(&slot.name());
            let variable = Some(slot).filter(|_| own).and_then(variable_of);
            let Some(name) = variable else { continue };
            self.name(value, &name);
            let conversion = [LLVMOpcode::LLVMTrunc, LLVMOpcode::LLVMZExt, LLVMOpcode::LLVMSExt];
            if conversion.iter().any(|&one| value.is(one)) {
                converted.push((value.operand(0), name));
            }
        }
        for (value, name) in converted {
            self.name(value, &name);
        }
    }

    fn name(&mut self, value: Value, name: &str) {
        if value.is_argument() {
            self.parameters.entry(value).or_insert_with(|| name.to_owned());
        } else if value.is_instruction() && self.read(value).is_none() {
            self.write(value, name);
        }
    }

    /// Takes the marks off again.
    pub fn unmark(&self, function: Value) {
        for instruction in function.instructions() {
            if self.read(instruction).is_some() {
                // SAFETY: a live instruction; null takes the metadata off.
                unsafe { LLVMSetMetadata(instruction.raw(), self.kind, std::ptr::null_mut()) };
            }
        }
    }

    /// The source variable of a value, where one is known.
    pub fn of(&self, value: Value) -> Option<String> {
        if let Some(name) = self.parameters.get(&value) {
            return Some(name.clone());
        }
        let own = || variable_name(&value.name()).filter(|_| !value.is_call() || is_chosen(&value.name()));
        self.read(value)
            .or_else(|| helpers::variable_name(value))
            .or_else(own)
    }

    fn write(&self, instruction: Value, name: &str) {
        // SAFETY: everything is made in the instruction's own context, from a live string.
        unsafe {
            let text = LLVMMDStringInContext2(self.context, name.as_ptr().cast(), name.len());
            let node = LLVMMDNodeInContext2(self.context, [text].as_mut_ptr(), 1);
            LLVMSetMetadata(
                instruction.raw(),
                self.kind,
                LLVMMetadataAsValue(self.context, node),
            );
        }
    }

    fn read(&self, value: Value) -> Option<String> {
        if !value.is_instruction() {
            return None;
        }
        // SAFETY: a live instruction, and a node that `write` made: one string.
        unsafe {
            let node = LLVMGetMetadata(value.raw(), self.kind);
            if node.is_null() {
                return None;
            }
            let mut text = std::ptr::null_mut();
            LLVMGetMDNodeOperands(node, &mut text);
            let mut length = 0;
            let bytes = LLVMGetMDString(text, &mut length);
            Some(
                String::from_utf8_lossy(std::slice::from_raw_parts(bytes.cast(), length as usize))
                    .into_owned(),
            )
        }
    }
}

/// The source variable whose memory an alloca is, from debug information or from the alloca's name.
pub fn variable_of(slot: Value) -> Option<String> {
    helpers::variable_name(slot).or_else(|| variable_name(&slot.name()))
}

/// The source name in an LLVM name: without what clang (`.addr`), the inliner (`.i`) and promotion
/// (`.0`) append. None for what never was a variable of the source, as `ref.tmp`.
fn variable_name(name: &str) -> Option<String> {
    let (stem, suffixes) = name.split_once('.').unwrap_or((name, ""));
    let appended = |part: &str| {
        part.is_empty()
            || part == "addr"
            || part
                .trim_start_matches(['i', 's', 'r', 'o', 'a'])
                .chars()
                .all(|c| c.is_ascii_digit())
    };
    let invented = matches!(
        stem,
        "" | "retval" | "tmp" | "ref" | "agg" | "cleanup" | "exn" | "saved_stack" | "undef"
    );
    (!invented && suffixes.split('.').all(appended)).then(|| stem.to_owned())
}

/// Whether the inliner brought this variable here.
fn is_inlined(name: &str) -> bool {
    name.split('.').skip(1).any(|part| {
        part.strip_prefix('i')
            .is_some_and(|rest| rest.parse::<u32>().is_ok() || rest.is_empty())
    })
}

/// Whether a call's own name is more than the `call` that clang gives every call.
fn is_chosen(name: &str) -> bool {
    !name.starts_with("call")
}
