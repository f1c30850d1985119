//! Functions that walk and build LLVM IR, over the handles of the C API.
//!
//! A handle is used only while the module it came from lives: a translation works on one module that
//! it owns, and drops every handle before that module is linked away. Under that rule every call made
//! through [`llvm!`] is sound.
use std::ffi::{CStr, CString, c_char, c_uint};

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};

/// Calls LLVM's C API.
macro_rules! llvm {
    ($call:expr) => {
        // SAFETY: the handles are of a live module and of the kind the call asks for (head of ir/value.rs).
        unsafe { $call }
    };
}
pub(in crate::device) use llvm;

/// Walks one of LLVM's lists, from its first element by its next.
fn list<T>(first: *mut T, next: impl Fn(*mut T) -> *mut T) -> Vec<*mut T> {
    std::iter::successors((!first.is_null()).then_some(first), |&at| {
        Some(next(at)).filter(|at| !at.is_null())
    })
    .collect()
}

/// The functions of a module, declarations included.
pub fn functions(module: LLVMModuleRef) -> Vec<LLVMValueRef> {
    list(llvm!(LLVMGetFirstFunction(module)), |at| {
        llvm!(LLVMGetNextFunction(at))
    })
}

/// The functions of a module that have a body.
pub fn defined_functions(module: LLVMModuleRef) -> Vec<LLVMValueRef> {
    functions(module)
        .into_iter()
        .filter(|&function| !is_declaration(function))
        .collect()
}

/// The global variables of a module.
pub fn globals(module: LLVMModuleRef) -> Vec<LLVMValueRef> {
    list(llvm!(LLVMGetFirstGlobal(module)), |at| {
        llvm!(LLVMGetNextGlobal(at))
    })
}

/// The blocks of a function.
pub fn blocks(function: LLVMValueRef) -> Vec<LLVMBasicBlockRef> {
    list(llvm!(LLVMGetFirstBasicBlock(function)), |at| {
        llvm!(LLVMGetNextBasicBlock(at))
    })
}

/// The instructions of a block.
pub fn block_instructions(block: LLVMBasicBlockRef) -> Vec<LLVMValueRef> {
    list(llvm!(LLVMGetFirstInstruction(block)), |at| {
        llvm!(LLVMGetNextInstruction(at))
    })
}

/// The instructions of a function.
pub fn instructions(function: LLVMValueRef) -> Vec<LLVMValueRef> {
    blocks(function)
        .into_iter()
        .flat_map(block_instructions)
        .collect()
}

/// The parameters of a function.
pub fn parameters(function: LLVMValueRef) -> Vec<LLVMValueRef> {
    (0..llvm!(LLVMCountParams(function)))
        .map(|at| llvm!(LLVMGetParam(function, at)))
        .collect()
}

/// The operands of a user; a call's last is the callee.
pub fn operands(user: LLVMValueRef) -> Vec<LLVMValueRef> {
    (0..llvm!(LLVMGetNumOperands(user)).max(0) as c_uint)
        .map(|at| llvm!(LLVMGetOperand(user, at)))
        .collect()
}

/// What uses a value, once per use.
pub fn users(value: LLVMValueRef) -> Vec<LLVMValueRef> {
    list(llvm!(LLVMGetFirstUse(value)), |at| llvm!(LLVMGetNextUse(at)))
        .into_iter()
        .map(|at| llvm!(LLVMGetUser(at)))
        .collect()
}

/// Replaces an operand of one user.
pub fn replace_operand(user: LLVMValueRef, old: LLVMValueRef, new: LLVMValueRef) {
    for (at, operand) in operands(user).into_iter().enumerate() {
        if operand == old {
            llvm!(LLVMSetOperand(user, at as c_uint, new));
        }
    }
}

/// A value's name; empty when it has none.
pub fn name(value: LLVMValueRef) -> String {
    let mut length = 0;
    let text = llvm!(LLVMGetValueName2(value, &mut length));
    // SAFETY: LLVM gave the address and the length of the name, which the value owns.
    unsafe { text_of(text, length) }
}

/// Renames a value.
pub fn set_name(value: LLVMValueRef, name: &str) {
    llvm!(LLVMSetValueName2(value, name.as_ptr().cast(), name.len()));
}

/// Copies a string out of LLVM.
///
/// # Safety
/// `text` must be null or the address of `length` readable bytes.
pub unsafe fn text_of(text: *const c_char, length: usize) -> String {
    if text.is_null() || length == 0 {
        return String::new();
    }
    // SAFETY: by contract.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes over a message that LLVM allocated.
pub fn message(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: LLVM's messages are C strings that the caller frees by LLVMDisposeMessage.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        owned
    }
}

/// A C string; zero bytes become spaces.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("zero bytes were replaced")
}

/// A type as LLVM writes it.
pub fn type_text(ty: LLVMTypeRef) -> String {
    message(llvm!(LLVMPrintTypeToString(ty)))
}

/// Whether a function or variable has no body here.
pub fn is_declaration(global: LLVMValueRef) -> bool {
    llvm!(LLVMIsDeclaration(global)) != 0
}

/// Whether a value is a function.
pub fn is_function(value: LLVMValueRef) -> bool {
    !llvm!(LLVMIsAFunction(value)).is_null()
}

/// Whether a value is an instruction.
pub fn is_instruction(value: LLVMValueRef) -> bool {
    !llvm!(LLVMIsAInstruction(value)).is_null()
}

/// The function an instruction stands in.
pub fn function_of(instruction: LLVMValueRef) -> LLVMValueRef {
    llvm!(LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction)))
}

/// The kind of an instruction.
pub fn opcode(instruction: LLVMValueRef) -> LLVMOpcode {
    llvm!(LLVMGetInstructionOpcode(instruction))
}

/// Whether an instruction is a call (device code has no invokes).
pub fn is_call(instruction: LLVMValueRef) -> bool {
    !llvm!(LLVMIsACallInst(instruction)).is_null()
}

/// The function that a call names; none for calls through pointers and inline assembly.
pub fn callee(call: LLVMValueRef) -> Option<LLVMValueRef> {
    let callee = llvm!(LLVMGetCalledValue(call));
    is_function(callee).then_some(callee)
}

/// The text of a call of inline assembly; none for other calls.
pub fn assembly_text(call: LLVMValueRef) -> Option<String> {
    let callee = llvm!(LLVMGetCalledValue(call));
    if llvm!(LLVMIsAInlineAsm(callee)).is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: LLVM gives address and length of a string that the context owns.
    Some(unsafe { text_of(LLVMGetInlineAsmAsmString(callee, &mut length), length) })
}

/// The type of the value that a global's address points to; of a function, its function type.
pub fn value_type(global: LLVMValueRef) -> LLVMTypeRef {
    llvm!(LLVMGlobalGetValueType(global))
}

/// The kind of a type.
pub fn kind(ty: LLVMTypeRef) -> LLVMTypeKind {
    llvm!(LLVMGetTypeKind(ty))
}

/// The address space of a global.
pub fn address_space(global: LLVMValueRef) -> u32 {
    llvm!(LLVMGetPointerAddressSpace(LLVMTypeOf(global)))
}

/// Makes a global private to its object.
pub fn make_internal(global: LLVMValueRef) {
    llvm!(LLVMSetLinkage(global, LLVMLinkage::LLVMInternalLinkage));
    llvm!(LLVMSetVisibility(
        global,
        inkwell::llvm_sys::LLVMVisibility::LLVMDefaultVisibility
    ));
}

/// A string attribute of a function.
pub fn string_attribute(function: LLVMValueRef, key: &str) -> Option<String> {
    string_attribute_at(function, inkwell::llvm_sys::LLVMAttributeFunctionIndex, key)
}

/// A string attribute of a function's parameter, counted from 1.
pub fn parameter_attribute(function: LLVMValueRef, at: c_uint, key: &str) -> Option<String> {
    string_attribute_at(function, at, key)
}

fn string_attribute_at(function: LLVMValueRef, index: c_uint, key: &str) -> Option<String> {
    let attribute = llvm!(LLVMGetStringAttributeAtIndex(
        function,
        index,
        key.as_ptr().cast(),
        key.len() as c_uint
    ));
    if attribute.is_null() {
        return None;
    }
    let mut length = 0;
    let text = llvm!(LLVMGetStringAttributeValue(attribute, &mut length));
    // SAFETY: LLVM gave address and length of a string that the context owns.
    Some(unsafe { text_of(text, length as usize) })
}

/// Gives a function a string attribute.
pub fn set_string_attribute(function: LLVMValueRef, key: &str, value: &str) {
    let context = llvm!(LLVMGetModuleContext(LLVMGetGlobalParent(function)));
    let (key, value) = (key.as_bytes(), value.as_bytes());
    let attribute = llvm!(LLVMCreateStringAttribute(
        context,
        key.as_ptr().cast(),
        key.len() as c_uint,
        value.as_ptr().cast(),
        value.len() as c_uint
    ));
    llvm!(LLVMAddAttributeAtIndex(
        function,
        inkwell::llvm_sys::LLVMAttributeFunctionIndex,
        attribute
    ));
}

/// LLVM's number for an attribute, by its name.
pub fn attribute_kind(name: &str) -> c_uint {
    llvm!(LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()))
}
