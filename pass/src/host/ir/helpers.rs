//! The C++ helpers of cpp/helpers.cpp: what LLVM's C API lacks.
use std::ffi::{CStr, CString, c_char};

use inkwell::llvm_sys::prelude::{LLVMBasicBlockRef, LLVMModuleRef, LLVMTypeRef, LLVMValueRef};

use crate::host::ir::{BasicBlock, Type, Value};

unsafe extern "C" {
    fn mgb_inline_call(call: LLVMValueRef) -> bool;
    fn mgb_resolve_aliases(module: LLVMModuleRef);
    fn mgb_split_edge(from: LLVMBasicBlockRef, to: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
    fn mgb_base_and_offset(pointer: LLVMValueRef, offset: *mut i64) -> LLVMValueRef;
    fn mgb_line(instruction: LLVMValueRef) -> u32;
    fn mgb_source(function: LLVMValueRef, name: *mut *const c_char) -> usize;
    fn mgb_outer_line(instruction: LLVMValueRef) -> u32;
    fn mgb_file(instruction: LLVMValueRef, name: *mut *const c_char) -> usize;
    fn mgb_variable_name(slot: LLVMValueRef, name: *mut *const c_char) -> usize;
    fn mgb_demangle(name: *const c_char) -> *mut c_char;
    fn mgb_diagnose(module: LLVMModuleRef, is_error: bool, text: *const c_char);
    fn mgb_remark(at: LLVMValueRef, is_missed: bool, name: *const c_char, text: *const c_char);
    fn mgb_keep(module: LLVMModuleRef, global: LLVMValueRef);
    fn mgb_add_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: i32);
    fn mgb_is_byval(call: LLVMValueRef, argument: u32) -> bool;
    fn mgb_is_byval_parameter(parameter: LLVMValueRef) -> bool;
    fn mgb_byval_parameter_type(parameter: LLVMValueRef) -> LLVMTypeRef;
    fn mgb_byval_type(call: LLVMValueRef, argument: u32) -> LLVMTypeRef;
    fn mgb_type_size(module: LLVMModuleRef, ty: LLVMTypeRef) -> u64;
    fn mgb_is_pure_call(call: LLVMValueRef) -> bool;
    fn mgb_surely_returns(call: LLVMValueRef) -> bool;
    fn mgb_is_library_function(function: LLVMValueRef) -> bool;
    fn mgb_indexed_address(
        module: LLVMModuleRef,
        pointer: LLVMValueRef,
        offset: *mut i64,
        stride: *mut u64,
        within: *mut u64,
    ) -> LLVMValueRef;
    fn mgb_is_only_read(call: LLVMValueRef, argument: u32) -> bool;
    fn mgb_initialisers(module: LLVMModuleRef, functions: *mut LLVMValueRef, most: usize) -> usize;
    fn mgb_defer_initialiser(
        module: LLVMModuleRef,
        call: LLVMValueRef,
        main: LLVMValueRef,
        before: LLVMValueRef,
    );
    fn mgb_is_not_captured(call: LLVMValueRef, argument: u32) -> bool;
    fn mgb_pointer_offsets(module: LLVMModuleRef, ty: LLVMTypeRef, offsets: *mut i64, most: usize) -> usize;
    fn mgb_dereferenceable_bytes(pointer: LLVMValueRef) -> u64;
    fn mgb_drop_promises(instruction: LLVMValueRef);
    fn free(pointer: *mut std::ffi::c_void);
}

/// Calls a helper. Contract: the arguments are live IR of the kind that the helper names, and the helper
/// keeps none of them.
macro_rules! helper {
    ($call:expr) => {
        // SAFETY: the arguments are handles of live IR of the module being processed (contract of `helper!`).
        unsafe { $call }
    };
}

/// Inlines a call or invoke by LLVM's own inliner; false where it may not, and when LLVM declines.
pub fn inline_call(call: Value) -> bool {
    helper!(mgb_inline_call(call.raw()))
}

/// Replaces calls of an alias, such as that of a constructor, by calls of the function itself, where neither
/// can be replaced at link time; drops aliases that are no longer referred to.
pub fn resolve_aliases(module: LLVMModuleRef) {
    helper!(mgb_resolve_aliases(module));
}

/// Puts a new block on the edge; none for edges that cannot be split (`indirectbr`, landing pads).
pub fn split_edge(from: BasicBlock, to: BasicBlock) -> Option<BasicBlock> {
    BasicBlock::from_raw(helper!(mgb_split_edge(from.raw(), to.raw())))
}

/// The pointer that `pointer` is a constant number of bytes away from, and that number.
pub fn base_and_offset(pointer: Value) -> (Value, i64) {
    let mut offset = 0;
    let base = helper!(mgb_base_and_offset(pointer.raw(), &mut offset));
    (Value::from_raw(base).expect("every pointer has a base"), offset)
}

/// The source line: the innermost one in a source file; for code of headers alone, where it was
/// inlined to. None without debug lines.
pub fn line(instruction: Value) -> Option<u32> {
    Some(helper!(mgb_line(instruction.raw()))).filter(|&line| line != 0)
}

/// The line in the function itself, of the call for what was inlined.
pub fn outer_line(instruction: Value) -> Option<u32> {
    Some(helper!(mgb_outer_line(instruction.raw()))).filter(|&line| line != 0)
}

/// The source file that a function was compiled from: in a whole program each has its own.
pub fn source(function: Value) -> String {
    text_of(|name| helper!(mgb_source(function.raw(), name)))
}

/// The file of [`line()`]; empty for that of the function that holds the instruction.
pub fn file(instruction: Value) -> String {
    text_of(|name| helper!(mgb_file(instruction.raw(), name)))
}

/// The variable of the function itself that an alloca or value is, where debug information says so.
pub fn variable_name(slot: Value) -> Option<String> {
    Some(text_of(|name| helper!(mgb_variable_name(slot.raw(), name)))).filter(|name| !name.is_empty())
}

/// Copies a string out of LLVM.
fn text_of(read: impl FnOnce(*mut *const c_char) -> usize) -> String {
    let mut name = std::ptr::null();
    let length = read(&mut name);
    if name.is_null() || length == 0 {
        return String::new();
    }
    // SAFETY: the helper gave the address and length of a string that the module owns.
    let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The symbol as the source spells it.
pub fn demangle(symbol: &str) -> String {
    let Ok(name) = CString::new(symbol) else {
        return symbol.to_owned();
    };
    let text = helper!(mgb_demangle(name.as_ptr()));
    if text.is_null() {
        return symbol.to_owned();
    }
    // SAFETY: `text` is a C string from `strdup` (contract of `mgb_demangle`), freed once, here.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        owned
    }
}

/// Reports through LLVM's diagnostics: clang prints it as its own warning or error.
pub fn diagnose(module: LLVMModuleRef, is_error: bool, text: &str) {
    let text = CString::new(text.replace('\0', " ")).expect("zero bytes were replaced");
    helper!(mgb_diagnose(module, is_error, text.as_ptr()));
}

/// An optimisation remark at an instruction, which clang prints with `-Rpass=mgb`, or `-Rpass-missed=mgb`.
pub fn remark(at: Value, is_missed: bool, name: &str, text: &str) {
    let [name, text] =
        [name, text].map(|text| CString::new(text.replace('\0', " ")).expect("zero bytes were replaced"));
    helper!(mgb_remark(at.raw(), is_missed, name.as_ptr(), text.as_ptr()));
}

/// Keeps a global in the object and in the program, although nothing refers to it.
pub fn keep(module: LLVMModuleRef, global: Value) {
    helper!(mgb_keep(module, global.raw()));
}

/// Has `function` called before `main`; lower priorities run earlier.
pub fn add_constructor(module: LLVMModuleRef, function: Value, priority: i32) {
    helper!(mgb_add_constructor(module, function.raw(), priority));
}

/// The type of an argument that is passed by value in memory; none for other arguments.
pub fn byval_type(call: Value, argument: u32) -> Option<Type> {
    helper!(mgb_is_byval(call.raw(), argument)).then(|| Type(helper!(mgb_byval_type(call.raw(), argument))))
}

/// The bytes a value of this type takes in memory.
pub fn type_size(module: LLVMModuleRef, ty: Type) -> u64 {
    helper!(mgb_type_size(module, ty.0))
}

/// Whether a call can be repeated anywhere: it reads and writes no memory, returns, and neither throws nor
/// traps.
pub fn is_pure_call(call: Value) -> bool {
    helper!(mgb_is_pure_call(call.raw()))
}

/// Whether the attributes of a call promise that it returns and does not throw.
pub fn surely_returns(call: Value) -> bool {
    helper!(mgb_surely_returns(call.raw()))
}

/// Whether a function is one that LLVM knows from the C and C++ libraries, by its name and type, without a
/// body here.
pub fn is_library_function(function: Value) -> bool {
    helper!(mgb_is_library_function(function.raw()))
}

/// The bytes that are readable from a pointer on wherever its value is defined, as far as they are known: of
/// a variable, a reference, or the result of `new`. 0 where nothing is known.
pub fn dereferenceable_bytes(pointer: Value) -> u64 {
    helper!(mgb_dereferenceable_bytes(pointer.raw()))
}

/// Whether the attributes of a call promise that it does not write through this argument.
pub fn is_only_read(call: Value, argument: u32) -> bool {
    helper!(mgb_is_only_read(call.raw(), argument))
}

/// The functions that initialise the globals of the module's files before `main`, in their order; at most so
/// many.
pub fn initialisers(module: LLVMModuleRef, most: usize) -> Vec<Value> {
    let mut functions = vec![std::ptr::null_mut(); most];
    let found = helper!(mgb_initialisers(module, functions.as_mut_ptr(), most));
    functions.truncate(found);
    functions.into_iter().filter_map(Value::from_raw).collect()
}

/// Moves a call of an initialiser's function without arguments in front of this instruction of `main`.
pub fn defer_initialiser(module: LLVMModuleRef, call: Value, main: Value, before: Value) {
    helper!(mgb_defer_initialiser(
        module,
        call.raw(),
        main.raw(),
        before.raw()
    ));
}

/// Whether the attributes of a call promise that it does not keep this argument.
pub fn is_not_captured(call: Value, argument: u32) -> bool {
    helper!(mgb_is_not_captured(call.raw(), argument))
}

/// The offsets of the pointers in a value of this type, in bytes; none where there are more than `most`.
pub fn pointer_offsets(module: LLVMModuleRef, ty: Type, most: usize) -> Option<Vec<i64>> {
    let mut offsets = vec![0; most];
    let found = helper!(mgb_pointer_offsets(module, ty.0, offsets.as_mut_ptr(), most));
    (found <= most).then(|| {
        offsets.truncate(found);
        offsets
    })
}

/// Drops the flags and metadata of an instruction that make other values undefined, such as `nonnull`: at
/// another place they may not hold.
pub fn drop_promises(instruction: Value) {
    helper!(mgb_drop_promises(instruction.raw()));
}

/// The base that `pointer` is `offset` bytes and a multiple of `stride` bytes away from. The stride is 0 if
/// the distance is constant, and 1 if nothing is known of it. Last: if it is an element of an array, chosen
/// at run time, the bytes of that array, which begins at `offset`; else 0.
pub fn indexed_address(module: LLVMModuleRef, pointer: Value) -> (Value, i64, u64, u64) {
    let (mut offset, mut stride, mut within) = (0, 0, 0);
    let base = helper!(mgb_indexed_address(
        module,
        pointer.raw(),
        &mut offset,
        &mut stride,
        &mut within
    ));
    (
        Value::from_raw(base).expect("every pointer has a base"),
        offset,
        stride,
        within,
    )
}

/// Whether a parameter is a copy in memory of what the caller passed by value.
pub fn is_byval_parameter(parameter: Value) -> bool {
    helper!(mgb_is_byval_parameter(parameter.raw()))
}

/// The type of such a parameter in memory; none for other parameters.
pub fn byval_parameter_type(parameter: Value) -> Option<Type> {
    is_byval_parameter(parameter).then(|| Type(helper!(mgb_byval_parameter_type(parameter.raw()))))
}
