//! Makes conversions from floating point to integers those of a GPU: a value that does not fit becomes the
//! nearest that does. C++ leaves it undefined, and the host gives another result; programs rely on that of
//! their GPU.
//!
//! Not-a-number becomes zero between types of 32 bits and less, else the sign bit alone.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMOpcode, LLVMRealPredicate, LLVMTypeKind};

use super::ir::*;

/// Replaces every such conversion of device code, of scalars; kernels have no others before they are
/// optimised.
pub fn conversions(module: LLVMModuleRef) {
    for function in defined_functions(module) {
        for instruction in instructions(function) {
            let name = match opcode(instruction) {
                LLVMOpcode::LLVMFPToSI => "llvm.fptosi.sat",
                LLVMOpcode::LLVMFPToUI => "llvm.fptoui.sat",
                _ => continue,
            };
            let to = llvm!(LLVMTypeOf(instruction));
            let scalar = kind(to) == LLVMTypeKind::LLVMIntegerTypeKind;
            if scalar && llvm!(LLVMGetIntTypeWidth(to)) <= 64 {
                replace(module, instruction, name);
            }
        }
    }
}

fn replace(module: LLVMModuleRef, instruction: LLVMValueRef, name: &str) {
    let context = llvm!(LLVMGetModuleContext(module));
    let value = llvm!(LLVMGetOperand(instruction, 0));
    let (from, to) = (llvm!(LLVMTypeOf(value)), llvm!(LLVMTypeOf(instruction)));
    let bits = llvm!(LLVMGetIntTypeWidth(to));
    // A GPU converts to 16 bits at least, and keeps the low ones.
    let wide = llvm!(LLVMIntTypeInContext(context, bits.max(16)));
    let number = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
    let convert = llvm!(LLVMGetIntrinsicDeclaration(
        module,
        number,
        [wide, from].as_mut_ptr(),
        2
    ));
    let builder = Builder::before(instruction);
    let mut result = builder.call(convert, &mut [value]);
    if bits > 32 || kind(from) == LLVMTypeKind::LLVMDoubleTypeKind {
        let none = llvm!(LLVMBuildFCmp(
            builder.raw(),
            LLVMRealPredicate::LLVMRealUNO,
            value,
            value,
            c"".as_ptr()
        ));
        let sign = llvm!(LLVMConstInt(wide, 1 << (bits.max(16) - 1), 0));
        result = llvm!(LLVMBuildSelect(builder.raw(), none, sign, result, c"".as_ptr()));
    }
    if wide != to {
        result = llvm!(LLVMBuildTrunc(builder.raw(), result, to, c"".as_ptr()));
    }
    llvm!(LLVMReplaceAllUsesWith(instruction, result));
    llvm!(LLVMInstructionEraseFromParent(instruction));
}
