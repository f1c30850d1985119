//! The C++ helpers of cpp/device.cpp (demangling is in cpp/helpers.cpp): what LLVM's C API lacks.
use inkwell::llvm_sys::prelude::*;
use std::ffi::{c_char, c_int, c_uint};

use super::ir::{c_string, llvm};

unsafe extern "C" {
    fn mgb_strip_metadata(module: LLVMModuleRef);
    fn mgb_delete_body(function: LLVMValueRef);
    fn mgb_expand_constant_users(global: LLVMValueRef);
    fn mgb_constant_base(module: LLVMModuleRef, pointer: LLVMValueRef, offset: *mut i64) -> LLVMValueRef;
    fn mgb_append_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: c_int);
    fn mgb_embed(
        module: LLVMModuleRef,
        data: *const c_char,
        length: usize,
        section: *const c_char,
        align: u64,
    );
    fn mgb_keep(module: LLVMModuleRef, global: LLVMValueRef);
    fn mgb_demangle(name: *const c_char) -> *mut c_char;
    fn mgb_suspend_after(call: LLVMValueRef, out: LLVMBasicBlockRef);
    fn mgb_end_at(call: LLVMValueRef, last: LLVMBasicBlockRef);
    fn mgb_replicate(
        function: LLVMValueRef,
        name: *const c_char,
        extra: *mut LLVMTypeRef,
        count: c_uint,
    ) -> LLVMValueRef;
    fn mgb_scope_to_gpu(atomic: LLVMValueRef);
    fn mgb_extend_call(call: LLVMValueRef, callee: LLVMValueRef, extra: *mut LLVMValueRef, count: c_uint);
    fn free(memory: *mut std::ffi::c_void);
    fn mgb_remark_missed(function: LLVMValueRef, name: *const c_char, text: *const c_char);
}

/// Drops all named metadata (module flags too) and all debug information.
pub fn strip_metadata(module: LLVMModuleRef) {
    llvm!(mgb_strip_metadata(module));
}

/// Makes a function a declaration.
pub fn delete_body(function: LLVMValueRef) {
    llvm!(mgb_delete_body(function));
}

/// Turns constant expressions over a global, where instructions use them, into instructions, so that
/// the global itself is an operand of each instruction that needs it.
pub fn expand_constant_users(global: LLVMValueRef) {
    llvm!(mgb_expand_constant_users(global));
}

/// The constant that a constant pointer lies a fixed number of bytes from, past casts, and that number.
pub fn constant_base(module: LLVMModuleRef, pointer: LLVMValueRef) -> (LLVMValueRef, i64) {
    let mut offset = 0;
    let base = llvm!(mgb_constant_base(module, pointer, &mut offset));
    (base, offset)
}

/// Keeps a global in the object and in the program, although nothing refers to it.
pub fn keep(module: LLVMModuleRef, global: LLVMValueRef) {
    llvm!(mgb_keep(module, global));
}

/// Has a function called before `main`; lower priorities run earlier.
pub fn append_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: i32) {
    llvm!(mgb_append_constructor(module, function, priority));
}

/// Emits a missed-optimisation remark (`-Rpass-missed=mgb`) on what could not be done for a function.
pub fn remark_missed(function: LLVMValueRef, name: &str, text: &str) {
    let (name, text) = (c_string(name), c_string(text));
    llvm!(mgb_remark_missed(function, name.as_ptr(), text.as_ptr()));
}

/// Puts bytes into a section of the object, which linkers leave out of programs.
pub fn embed(module: LLVMModuleRef, bytes: &[u8], section: &str, align: u64) {
    let section = c_string(section);
    llvm!(mgb_embed(
        module,
        bytes.as_ptr().cast(),
        bytes.len(),
        section.as_ptr(),
        align
    ));
}

/// A C++ symbol as the source spells it; other symbols as they are.
pub fn demangle(symbol: &str) -> String {
    let text = llvm!(mgb_demangle(c_string(symbol).as_ptr()));
    if text.is_null() {
        return symbol.to_owned();
    }
    // SAFETY: the helper gives a C string from malloc, ours to read and to free.
    unsafe {
        let owned = std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        owned
    }
}

/// Has a coroutine suspended behind a call; what suspends it leaves by `out`.
pub fn suspend_after(call: LLVMValueRef, out: LLVMBasicBlockRef) {
    llvm!(mgb_suspend_after(call, out));
}

/// Goes to the block `last` instead of making a call, and drops what stands behind that.
pub fn end_at(call: LLVMValueRef, last: LLVMBasicBlockRef) {
    llvm!(mgb_end_at(call, last));
}

/// A copy of a function that has more parameters, behind its own.
pub fn replicate(function: LLVMValueRef, symbol: &str, extra: &mut [LLVMTypeRef]) -> LLVMValueRef {
    let (symbol, count) = (c_string(symbol), extra.len() as c_uint);
    llvm!(mgb_replicate(
        function,
        symbol.as_ptr(),
        extra.as_mut_ptr(),
        count
    ))
}

/// Has a call go to another function, with more arguments behind its own.
pub fn extend_call(call: LLVMValueRef, callee: LLVMValueRef, extra: &[LLVMValueRef]) {
    let (mut extra, count) = (extra.to_vec(), extra.len() as c_uint);
    llvm!(mgb_extend_call(call, callee, extra.as_mut_ptr(), count));
}

/// Has an atomic operation be one for the threads of one GPU.
pub fn scope_to_gpu(atomic: LLVMValueRef) {
    llvm!(mgb_scope_to_gpu(atomic));
}
