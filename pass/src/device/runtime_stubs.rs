//! Gives every function that device code takes from the GPU a body on the host.
//!
//! A function for which [`support`] has no body becomes one that ends the launch with an error naming
//! it: kernels that still reach it once everything is optimised are refused when compiled, the others
//! of the module stay usable.
use std::collections::BTreeSet;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::linker::LLVMLinkModules2;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;
use super::support::{self, ForeignFunction, HostBody, definition};
use super::{helpers, module};

/// The attribute of a function that replaces something unknown; its value names it.
pub const MISSING: &str = "softgpu-missing";

/// Parses the prelude together with definitions.
pub fn parse_support(
    context: LLVMContextRef,
    definitions: &str,
    declarations: &BTreeSet<String>,
) -> Result<LLVMModuleRef, String> {
    let declarations: String = declarations
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect();
    let text = format!("{}\n{declarations}\n{definitions}", support::PRELUDE.concat());
    module::parse(context, &text).map_err(|error| format!("failed to parse the support code: {error}"))
}

/// What the module's foreign functions become.
#[derive(Default)]
struct Support {
    /// In the order of their symbols.
    entries: Vec<RuntimeStub>,
}

/// One of them.
struct RuntimeStub {
    definition: String,
    declarations: BTreeSet<String>,
    /// The definition to use instead if LLVM does not accept the first.
    refusal: String,
    /// What it is for messages, and whether it has a body.
    what: String,
    known: bool,
}

/// The symbol of the entry of that number.
fn symbol(number: usize) -> String {
    format!("softgpu.host.{number}")
}

impl Support {
    /// Writes the function for something foreign; returns its symbol.
    fn add(&mut self, foreign: &ForeignFunction, body: Option<HostBody>, what: &str) -> String {
        let symbol = symbol(self.entries.len());
        let refusal = definition(&symbol, foreign, &support::services::trap(what));
        let known = body.is_some();
        let (definition, declarations) = match body {
            Some(body) => (definition(&symbol, foreign, &body), body.declarations),
            None => (refusal.clone(), BTreeSet::new()),
        };
        self.entries.push(RuntimeStub {
            definition,
            declarations,
            refusal,
            what: what.to_owned(),
            known,
        });
        symbol
    }

    /// Parses all of them. One that LLVM does not take is refused by itself, and the others are kept.
    fn parse(&mut self, context: LLVMContextRef) -> Result<LLVMModuleRef, String> {
        if let Ok(module) = self.try_parse(context) {
            return Ok(module);
        }
        for entry in self.entries.iter_mut().filter(|entry| entry.known) {
            match parse_support(context, &entry.definition, &entry.declarations) {
                Ok(alone) => llvm!(LLVMDisposeModule(alone)),
                Err(_) => {
                    entry.definition = entry.refusal.clone();
                    entry.declarations.clear();
                    entry.known = false;
                }
            }
        }
        self.try_parse(context)
    }

    fn try_parse(&self, context: LLVMContextRef) -> Result<LLVMModuleRef, String> {
        let definitions: String = self
            .entries
            .iter()
            .map(|entry| entry.definition.as_str())
            .collect();
        let declarations = self
            .entries
            .iter()
            .flat_map(|entry| entry.declarations.clone())
            .collect();
        parse_support(context, &definitions, &declarations)
    }
}

/// The type of a function, for its body.
fn foreign<'a>(name: &'a str, ty: LLVMTypeRef) -> ForeignFunction<'a> {
    let mut takes = vec![std::ptr::null_mut(); llvm!(LLVMCountParamTypes(ty)) as usize];
    llvm!(LLVMGetParamTypes(ty, takes.as_mut_ptr()));
    let takes = takes.into_iter().map(type_text).collect();
    ForeignFunction {
        name,
        returns: type_text(llvm!(LLVMGetReturnType(ty))),
        takes,
    }
}

/// Whether a declared function is one that every target of LLVM has.
fn is_generic(name: &str) -> bool {
    const OTHERWISE: [&str; 6] = [
        "llvm.nvvm.",
        "llvm.va_",
        "llvm.trap",
        "llvm.debugtrap",
        "llvm.ubsantrap",
        "llvm.stacksave.p5",
    ];
    name.starts_with("softgpu.")
        || name.starts_with("llvm.") && !OTHERWISE.iter().any(|prefix| name.starts_with(prefix))
}

/// Replaces every foreign function and every inline assembly, and links the support code in.
pub fn resolve(module: LLVMModuleRef, describe: impl Fn(&str) -> String) -> Result<(), String> {
    let mut support = Support::default();
    for function in functions(module) {
        let name = name(function);
        if !is_declaration(function) || is_generic(&name) || users(function).is_empty() {
            continue;
        }
        let ty = value_type(function);
        let foreign = foreign(&name, ty);
        let body = if llvm!(LLVMIsFunctionVarArg(ty)) != 0 {
            None
        } else {
            support::function(&foreign)
        };
        let symbol = support.add(&foreign, body, &describe(&name));
        let replacement = llvm!(LLVMAddFunction(module, c_string(&symbol).as_ptr(), ty));
        llvm!(LLVMReplaceAllUsesWith(function, replacement));
        llvm!(LLVMDeleteFunction(function));
    }
    for call in defined_functions(module).into_iter().flat_map(instructions) {
        if !is_call(call) || llvm!(LLVMIsAInlineAsm(LLVMGetCalledValue(call))).is_null() {
            continue;
        }
        let assembly = llvm!(LLVMGetCalledValue(call));
        let mut length = 0;
        // SAFETY: LLVM gives address and length of strings that the context owns.
        let (text, constraints) = unsafe {
            (
                text_of(LLVMGetInlineAsmAsmString(assembly, &mut length), length),
                text_of(LLVMGetInlineAsmConstraintString(assembly, &mut length), length),
            )
        };
        let ty = llvm!(LLVMGetCalledFunctionType(call));
        let foreign = foreign(&text, ty);
        let (body, what) = match support::assembly(&foreign, &constraints) {
            Ok(body) => (Some(body), quoted(&text)),
            Err(statement) => (None, quoted(&statement)),
        };
        let symbol = support.add(&foreign, body, &what);
        let replacement = llvm!(LLVMAddFunction(module, c_string(&symbol).as_ptr(), ty));
        let last = llvm!(LLVMGetNumOperands(call)) - 1;
        llvm!(LLVMSetOperand(call, last as u32, replacement));
    }
    let parsed = support.parse(llvm!(LLVMGetModuleContext(module)))?;
    // The linker warns when these differ.
    llvm!(LLVMSetTarget(parsed, LLVMGetTarget(module)));
    llvm!(LLVMSetDataLayout(parsed, LLVMGetDataLayoutStr(module)));
    if llvm!(LLVMLinkModules2(module, parsed)) != 0 {
        return Err("failed to link the support code".to_owned());
    }
    for (number, entry) in support
        .entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| !entry.known)
    {
        let function = llvm!(LLVMGetNamedFunction(module, c_string(&symbol(number)).as_ptr()));
        set_string_attribute(function, MISSING, &entry.what);
    }
    Ok(())
}

/// Inline assembly, for messages: on one line, and not all of a long one.
fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(';');
    match line.char_indices().nth(120) {
        Some((end, _)) => format!("inline PTX \"{}...\"", &line[..end]),
        None => format!("inline PTX \"{line}\""),
    }
}

/// What device code calls and nothing here defines.
pub fn describe(name: &str) -> String {
    if name.starts_with("cudaLaunchDevice") || name.starts_with("cudaGetParameterBuffer") {
        return format!("launches from the device ({name})");
    }
    format!("function \"{}\"", helpers::demangle(name))
}

/// A function without operands that ends the launch with an error that names `what` is missing.
pub fn missing(module: LLVMModuleRef, what: &str) -> LLVMValueRef {
    let context = llvm!(LLVMGetModuleContext(module));
    let ty = llvm!(LLVMFunctionType(
        LLVMVoidTypeInContext(context),
        std::ptr::null_mut(),
        0,
        0
    ));
    let function = llvm!(LLVMAddFunction(module, c"softgpu.missing".as_ptr(), ty));
    make_internal(function);
    for kind in ["noinline", "cold", "nounwind"] {
        let attribute = llvm!(LLVMCreateEnumAttribute(context, attribute_kind(kind), 0));
        llvm!(LLVMAddAttributeAtIndex(
            function,
            inkwell::llvm_sys::LLVMAttributeFunctionIndex,
            attribute
        ));
    }
    set_string_attribute(function, MISSING, what);
    let builder = Builder::at_end(llvm!(LLVMAppendBasicBlockInContext(
        context,
        function,
        c"".as_ptr()
    )));
    let text = llvm!(LLVMBuildGlobalString(
        builder.raw(),
        c_string(what).as_ptr(),
        c"softgpu.what".as_ptr()
    ));
    let trap = llvm!(LLVMGetNamedFunction(module, c"softgpu.trap".as_ptr()));
    builder.call(trap, &mut [text]);
    llvm!(LLVMBuildUnreachable(builder.raw()));
    function
}
