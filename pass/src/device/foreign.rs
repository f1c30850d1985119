//! Gives every function that device code takes from the GPU a body on the host.
//!
//! A function for which [`support`] has no body becomes one that ends the launch with an error naming
//! it: kernels that still reach it once everything is optimised are refused when compiled, the others
//! of the module stay usable.
use std::collections::BTreeSet;

use llvm_sys::core::*;
use llvm_sys::ir_reader::LLVMParseIRInContext2;
use llvm_sys::linker::LLVMLinkModules2;
use llvm_sys::prelude::*;

use super::helpers;
use super::ir::*;
use super::support::{self, Body, Foreign};

/// The attribute of a function that stands for something unknown; its value says what.
pub const MISSING: &str = "softgpu-missing";

/// Text of the function `symbol` with this body.
pub fn definition(symbol: &str, foreign: &Foreign, body: &Body) -> String {
    let takes: Vec<String> = foreign
        .takes
        .iter()
        .enumerate()
        .map(|(at, ty)| format!("{ty} %a{at}"))
        .collect();
    let attributes = if body.attributes.is_empty() {
        "alwaysinline"
    } else {
        body.attributes
    };
    let (returns, takes, text) = (&foreign.returns, takes.join(", "), &body.text);
    format!("define {returns} @\"{symbol}\"({takes}) {attributes} nounwind {{\nentry:\n {text}\n}}\n")
}

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
    let text = c_string(&format!("{}\n{declarations}\n{definitions}", support::PRELUDE));
    let (mut module, mut error) = (std::ptr::null_mut(), std::ptr::null_mut());
    let length = text.as_bytes().len();
    let buffer = llvm!(LLVMCreateMemoryBufferWithMemoryRange(
        text.as_ptr(),
        length,
        c"support".as_ptr(),
        1
    ));
    let failed = llvm!(LLVMParseIRInContext2(context, buffer, &mut module, &mut error));
    llvm!(LLVMDisposeMemoryBuffer(buffer));
    if failed != 0 {
        return Err(format!("failed to parse the support code: {}", message(error)));
    }
    Ok(module)
}

/// What the module's foreign functions become.
#[derive(Default)]
struct Support {
    definitions: String,
    declarations: BTreeSet<String>,
    count: usize,
}

impl Support {
    /// Writes the function for something foreign; returns its symbol.
    fn add(&mut self, foreign: &Foreign, body: Option<Body>, what: &str) -> String {
        let symbol = format!("softgpu.host.{}", self.count);
        self.count += 1;
        let body = body.unwrap_or_else(|| support::services::trap(what));
        self.definitions += &definition(&symbol, foreign, &body);
        self.declarations.extend(body.declarations);
        symbol
    }
}

/// The type of a function, for its body.
fn foreign<'a>(name: &'a str, ty: LLVMTypeRef) -> Foreign<'a> {
    let mut takes = vec![std::ptr::null_mut(); llvm!(LLVMCountParamTypes(ty)) as usize];
    llvm!(LLVMGetParamTypes(ty, takes.as_mut_ptr()));
    let takes = takes.into_iter().map(type_text).collect();
    Foreign {
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
    let mut missing = Vec::new();
    let mut note = |symbol: &str, known: bool, what: &str| {
        if !known {
            missing.push((symbol.to_owned(), what.to_owned()));
        }
    };
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
        let (known, what) = (body.is_some(), describe(&name));
        let symbol = support.add(&foreign, body, &what);
        note(&symbol, known, &what);
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
        // SAFETY: LLVM gives address and length of a string that the context owns.
        let text = unsafe { text_of(LLVMGetInlineAsmAsmString(assembly, &mut length), length) };
        let ty = llvm!(LLVMGetCalledFunctionType(call));
        let foreign = foreign(&text, ty);
        let body = support::assembly(&foreign);
        let (known, what) = (body.is_some(), describe(&text));
        let symbol = support.add(&foreign, body, &what);
        note(&symbol, known, &what);
        let replacement = llvm!(LLVMAddFunction(module, c_string(&symbol).as_ptr(), ty));
        let last = llvm!(LLVMGetNumOperands(call)) - 1;
        llvm!(LLVMSetOperand(call, last as u32, replacement));
    }
    let parsed = parse_support(
        llvm!(LLVMGetModuleContext(module)),
        &support.definitions,
        &support.declarations,
    )?;
    // The linker warns when these differ.
    llvm!(LLVMSetTarget(parsed, LLVMGetTarget(module)));
    llvm!(LLVMSetDataLayout(parsed, LLVMGetDataLayoutStr(module)));
    if llvm!(LLVMLinkModules2(module, parsed)) != 0 {
        return Err("failed to link the support code".to_owned());
    }
    for (symbol, what) in missing {
        let function = llvm!(LLVMGetNamedFunction(module, c_string(&symbol).as_ptr()));
        set_string_attribute(function, MISSING, &what);
    }
    Ok(())
}

/// What device code calls that nobody can give it here.
pub fn describe(name: &str) -> String {
    let known = [
        ("malloc", "device memory allocation (malloc)"),
        ("free", "device memory allocation (free)"),
        ("_Znwm", "device memory allocation (operator new)"),
        ("_Znam", "device memory allocation (operator new[])"),
        ("_ZdlPv", "device memory allocation (operator delete)"),
        ("_ZdaPv", "device memory allocation (operator delete[])"),
    ];
    if let Some((_, text)) = known.iter().find(|(symbol, _)| *symbol == name) {
        return (*text).to_owned();
    }
    if name.starts_with("cudaLaunchDevice") || name.starts_with("cudaGetParameterBuffer") {
        return format!("launches from the device ({name})");
    }
    let line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let kind = if name.contains([' ', ';', '\n']) {
        "inline PTX"
    } else {
        "function"
    };
    format!("{kind} \"{}\"", helpers::demangle(line.trim_end_matches(';')))
}

/// A function without operands that ends the launch with an error that says `what` is not there.
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
            llvm_sys::LLVMAttributeFunctionIndex,
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
