//! A device module that the translation owns, and its change of target.
use std::ffi::CStr;
use std::path::Path;

use inkwell::llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use inkwell::llvm_sys::comdat::LLVMSetComdat;
use inkwell::llvm_sys::core::*;
// LLVM before 22 has no other form.
#[allow(deprecated)]
use inkwell::llvm_sys::ir_reader::LLVMParseIRInContext;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAttributeFunctionIndex, LLVMAttributeReturnIndex};

use super::ir::*;
use super::{helpers, support};

/// A module that is disposed of with its scope.
pub struct Module(LLVMModuleRef);

impl Module {
    /// One without anything in it.
    pub fn empty(context: LLVMContextRef) -> Self {
        Self(llvm!(LLVMModuleCreateWithNameInContext(
            c"device".as_ptr(),
            context
        )))
    }

    /// Reads a module from a file of bitcode.
    pub fn read(context: LLVMContextRef, path: &Path) -> Result<Self, String> {
        let bytes =
            std::fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        let start = bytes.as_ptr().cast();
        let buffer = llvm!(LLVMCreateMemoryBufferWithMemoryRange(
            start,
            bytes.len(),
            c"device".as_ptr(),
            0
        ));
        let mut module = std::ptr::null_mut();
        let failed = llvm!(LLVMParseBitcodeInContext2(context, buffer, &mut module));
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        if failed != 0 {
            return Err(format!(
                "failed to read {}: this is not bitcode of this LLVM",
                path.display()
            ));
        }
        Ok(Self(module))
    }

    /// LLVM's handle, which the caller disposes of.
    pub fn into_raw(self) -> LLVMModuleRef {
        std::mem::ManuallyDrop::new(self).0
    }

    /// The handle that LLVM's C API has for the module.
    pub fn raw(&self) -> LLVMModuleRef {
        self.0
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        llvm!(LLVMDisposeModule(self.0));
    }
}

/// Reads a module from LLVM's assembly language.
pub fn parse(context: LLVMContextRef, text: &str) -> Result<LLVMModuleRef, String> {
    let (text, mut module, mut error) = (c_string(text), std::ptr::null_mut(), std::ptr::null_mut());
    let buffer = llvm!(LLVMCreateMemoryBufferWithMemoryRange(
        text.as_ptr(),
        text.as_bytes().len(),
        c"support".as_ptr(),
        1
    ));
    // Takes the buffer, not the text that it points to.
    #[allow(deprecated)]
    let failed = llvm!(LLVMParseIRInContext(context, buffer, &mut module, &mut error));
    if failed != 0 {
        return Err(message(error));
    }
    Ok(module)
}

/// Attributes of device code that have no meaning, or another one, on a host.
const DROPPED: [&str; 6] = ["convergent", "noinline", "optnone", "optsize", "minsize", "range"];

/// Makes the module one for the host's processor, private but for `kernels`.
///
/// Address spaces stay as they are: on a host every number below 256 is the one flat memory, casts
/// between them cost nothing, and keeping them spares a rewrite of every type.
pub fn retarget(module: LLVMModuleRef, host: LLVMModuleRef, kernels: &[LLVMValueRef]) {
    llvm!(LLVMSetTarget(module, LLVMGetTarget(host)));
    llvm!(LLVMSetDataLayout(module, LLVMGetDataLayoutStr(host)));
    helpers::strip_metadata(module);
    let processor = processor(host);
    for function in functions(module) {
        llvm!(LLVMSetFunctionCallConv(function, 0));
        if is_declaration(function) {
            continue;
        }
        drop_attributes(function);
        for (key, value) in &processor {
            set_string_attribute(function, key, value);
        }
        for call in instructions(function).into_iter().filter(|&at| is_call(at)) {
            for kind in ["convergent", "noinline"] {
                llvm!(LLVMRemoveCallSiteEnumAttribute(
                    call,
                    LLVMAttributeFunctionIndex,
                    attribute_kind(kind)
                ));
            }
        }
        llvm!(LLVMSetComdat(function, std::ptr::null_mut()));
        if !kernels.contains(&function) {
            make_internal(function);
        }
    }
    for global in globals(module) {
        if !is_declaration(global) && !name(global).starts_with("llvm.") {
            llvm!(LLVMSetComdat(global, std::ptr::null_mut()));
            make_internal(global);
        }
    }
}

/// The processor that the host module is compiled for, as attributes.
///
/// Every x86-64 processor of the last fifteen years exchanges 16 bytes at once, but compilers for the first
/// ones call a library instead, that programs do not link.
fn processor(host: LLVMModuleRef) -> Vec<(&'static str, String)> {
    const FEATURES: &str = "target-features";
    let Some(&function) = defined_functions(host).first() else {
        return Vec::new();
    };
    let mut found: Vec<_> = ["target-cpu", "tune-cpu", FEATURES]
        .into_iter()
        .filter_map(|key| Some((key, string_attribute(function, key)?)))
        .collect();
    // SAFETY: LLVM gives a C string that the module owns.
    let triple = unsafe { CStr::from_ptr(LLVMGetTarget(host)) };
    if triple.to_bytes().starts_with(b"x86_64") {
        let given = found.iter().position(|(key, _)| *key == FEATURES);
        let features = given.map_or(String::new(), |at| found.swap_remove(at).1 + ",");
        found.push((FEATURES, features + "+cx16"));
    }
    found
}

fn drop_attributes(function: LLVMValueRef) {
    for kind in DROPPED {
        llvm!(LLVMRemoveEnumAttributeAtIndex(
            function,
            LLVMAttributeFunctionIndex,
            attribute_kind(kind)
        ));
    }
    llvm!(LLVMRemoveEnumAttributeAtIndex(
        function,
        LLVMAttributeReturnIndex,
        attribute_kind("range")
    ));
    let count = llvm!(LLVMGetAttributeCountAtIndex(function, LLVMAttributeFunctionIndex));
    let mut attributes = vec![std::ptr::null_mut(); count as usize];
    llvm!(LLVMGetAttributesAtIndex(
        function,
        LLVMAttributeFunctionIndex,
        attributes.as_mut_ptr()
    ));
    for attribute in attributes
        .into_iter()
        .filter(|&at| llvm!(LLVMIsStringAttribute(at)) != 0)
    {
        let mut length = 0;
        let key = llvm!(LLVMGetStringAttributeKind(attribute, &mut length));
        llvm!(LLVMRemoveStringAttributeAtIndex(
            function,
            LLVMAttributeFunctionIndex,
            key,
            length
        ));
    }
}

/// Drops the bodies of the libdevice functions that functions of the host's mathematical library replace, and
/// answers the questions of libdevice about the target.
pub fn simplify_libdevice(module: LLVMModuleRef, arch: u32) {
    for function in defined_functions(module) {
        if support::replaces_libdevice(&name(function)) {
            helpers::delete_body(function);
            llvm!(LLVMSetLinkage(
                function,
                inkwell::llvm_sys::LLVMLinkage::LLVMExternalLinkage
            ));
        }
    }
    let reflect = llvm!(LLVMGetNamedFunction(module, c"__nvvm_reflect".as_ptr()));
    if reflect.is_null() {
        return;
    }
    for call in users(reflect)
        .into_iter()
        .filter(|&user| is_instruction(user) && is_call(user))
    {
        let asked = string_constant(operands(call)[0]).unwrap_or_default();
        let answer = match asked.as_str() {
            "__CUDA_ARCH" => arch * 10,
            // Square roots and quotients are precise here; subnormal numbers are kept.
            "__CUDA_PREC_SQRT" | "__CUDA_PREC_DIV" => 1,
            _ => 0,
        };
        let ty = llvm!(LLVMTypeOf(call));
        llvm!(LLVMReplaceAllUsesWith(
            call,
            LLVMConstInt(ty, u64::from(answer), 0)
        ));
        llvm!(LLVMInstructionEraseFromParent(call));
    }
}

/// The text of a constant C string.
pub fn string_constant(pointer: LLVMValueRef) -> Option<String> {
    let global = if llvm!(LLVMIsAGlobalVariable(pointer)).is_null() {
        let first = operands(pointer).first().copied()?;
        return string_constant(first);
    } else {
        pointer
    };
    let initial = llvm!(LLVMGetInitializer(global));
    if initial.is_null() || llvm!(LLVMIsConstantString(initial)) == 0 {
        return None;
    }
    let mut length = 0;
    // SAFETY: LLVM gives address and length of the constant's bytes.
    let text = unsafe { text_of(LLVMGetAsString(initial, &mut length), length) };
    Some(text.trim_end_matches('\0').to_owned())
}

/// The architecture a device module was compiled for, as `sm_90`.
pub fn architecture(module: LLVMModuleRef) -> Option<String> {
    defined_functions(module)
        .into_iter()
        .find_map(|function| string_attribute(function, "target-cpu"))
}

/// The source file of a module.
pub fn source(module: LLVMModuleRef) -> String {
    let mut length = 0;
    // SAFETY: LLVM gives address and length of a string that the module owns.
    unsafe { text_of(LLVMGetSourceFileName(module, &mut length), length) }
}

/// The kernels of a module: the functions that the host can launch.
pub fn kernels(module: LLVMModuleRef) -> Vec<LLVMValueRef> {
    let mut all = defined_functions(module);
    all.retain(|&function| is_kernel(function));
    all
}

/// Whether the host can launch a function.
pub fn is_kernel(function: LLVMValueRef) -> bool {
    let convention = inkwell::llvm_sys::LLVMCallConv::LLVMPTXKernelCallConv as u32;
    llvm!(LLVMGetFunctionCallConv(function)) == convention
}

/// Runs LLVM's passes over a module.
pub fn run_passes(module: LLVMModuleRef, passes: &CStr) -> Result<(), String> {
    use inkwell::llvm_sys::transforms::pass_builder::*;
    let options = llvm!(LLVMCreatePassBuilderOptions());
    // One thread's code is scalar; widening it here would cost more than it brings.
    llvm!(LLVMPassBuilderOptionsSetLoopVectorization(options, 0));
    llvm!(LLVMPassBuilderOptionsSetSLPVectorization(options, 0));
    let error = llvm!(LLVMRunPasses(
        module,
        passes.as_ptr(),
        std::ptr::null_mut(),
        options
    ));
    llvm!(LLVMDisposePassBuilderOptions(options));
    if error.is_null() {
        return Ok(());
    }
    let text = llvm!(inkwell::llvm_sys::error::LLVMGetErrorMessage(error));
    // SAFETY: LLVM's error message is a C string that we free.
    let message = unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        inkwell::llvm_sys::error::LLVMDisposeErrorMessage(text);
        owned
    };
    Err(format!("failed to run {}: {message}", passes.to_string_lossy()))
}
