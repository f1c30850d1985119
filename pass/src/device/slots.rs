//! Replaces the queries of device code for its thread, or for the variables of the device, by one load of a
//! slot.
//!
//! The slot is valid when a function starts, and the function keeps what it loaded in a register: other
//! threads may run on the same OS thread, and use the slot, while this one waits inside a call.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::ir::*;

/// The function that represents a slot until [`resolve`]: `softgpu.thread` or `softgpu.block_variables`. The
/// prelude declares both, but unused declarations are dropped before.
pub fn question(module: LLVMModuleRef, name: &str) -> LLVMValueRef {
    let found = llvm!(LLVMGetNamedFunction(module, c_string(name).as_ptr()));
    if !found.is_null() {
        return found;
    }
    let context = llvm!(LLVMGetModuleContext(module));
    let pointer = llvm!(LLVMPointerTypeInContext(context, 0));
    let ty = llvm!(LLVMFunctionType(pointer, std::ptr::null_mut(), 0, 0));
    let function = llvm!(LLVMAddFunction(module, c_string(name).as_ptr(), ty));
    for kind in ["nounwind", "willreturn", "nosync", "speculatable", "memory"] {
        // Zero for `memory` is memory(none).
        let attribute = llvm!(LLVMCreateEnumAttribute(context, attribute_kind(kind), 0));
        llvm!(LLVMAddAttributeAtIndex(
            function,
            inkwell::llvm_sys::LLVMAttributeFunctionIndex,
            attribute
        ));
    }
    function
}

/// Replaces the calls of `softgpu.thread` and `softgpu.block_variables`. `entries` get their thread
/// as a parameter.
pub fn resolve(module: LLVMModuleRef, entries: &[LLVMValueRef]) {
    for (question, slot) in [
        (c"softgpu.thread", c"softgpu.self"),
        (c"softgpu.block_variables", c"softgpu.variables"),
    ] {
        let question = llvm!(LLVMGetNamedFunction(module, question.as_ptr()));
        let slot = llvm!(LLVMGetNamedGlobal(module, slot.as_ptr()));
        if question.is_null() {
            continue;
        }
        for function in defined_functions(module) {
            let calls: Vec<_> = instructions(function)
                .into_iter()
                .filter(|&at| is_call(at) && callee(at) == Some(question))
                .collect();
            let Some(&first) = calls.first() else {
                continue;
            };
            let given = entries.contains(&function) && name(slot) == "softgpu.self";
            let answer = if given {
                llvm!(LLVMGetParam(function, 0))
            } else {
                load(module, function, slot, first)
            };
            for call in calls {
                llvm!(LLVMReplaceAllUsesWith(call, answer));
                llvm!(LLVMInstructionEraseFromParent(call));
            }
        }
        llvm!(LLVMDeleteFunction(question));
    }
}

/// Loads a slot at the start of a function.
fn load(
    module: LLVMModuleRef,
    function: LLVMValueRef,
    slot: LLVMValueRef,
    like: LLVMValueRef,
) -> LLVMValueRef {
    // The attributes of the query need not hold for the load: it must stay behind earlier stores.
    let memory = attribute_kind("memory");
    llvm!(LLVMRemoveEnumAttributeAtIndex(
        function,
        inkwell::llvm_sys::LLVMAttributeFunctionIndex,
        memory
    ));
    let builder = Builder::at_start(function);
    let pointer = llvm!(LLVMTypeOf(like));
    let name = "llvm.threadlocal.address";
    let number = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
    let address = llvm!(LLVMGetIntrinsicDeclaration(
        module,
        number,
        [pointer].as_mut_ptr(),
        1
    ));
    let place = builder.call(address, &mut [slot]);
    llvm!(LLVMBuildLoad2(builder.raw(), pointer, place, c"".as_ptr()))
}
