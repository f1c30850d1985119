//! Inserting instructions: LLVM's builder, with the places and the few shapes that the translation needs.
use std::ffi::c_uint;

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::value::*;

/// A builder that is freed with its scope.
pub struct Builder(LLVMBuilderRef);

impl Builder {
    /// A builder that inserts before an instruction.
    pub fn before(instruction: LLVMValueRef) -> Self {
        let context = llvm!(LLVMGetModuleContext(LLVMGetGlobalParent(function_of(
            instruction
        ))));
        let builder = llvm!(LLVMCreateBuilderInContext(context));
        llvm!(LLVMPositionBuilderBefore(builder, instruction));
        Self(builder)
    }

    /// A builder that inserts at the start of a function, past its allocas.
    pub fn at_start(function: LLVMValueRef) -> Self {
        let entry = block_instructions(llvm!(LLVMGetEntryBasicBlock(function)));
        let first = entry.iter().find(|&&at| opcode(at) != LLVMOpcode::LLVMAlloca);
        Self::before(*first.expect("a block ends in a terminator"))
    }

    /// A builder that inserts at the end of a block.
    pub fn at_end(block: LLVMBasicBlockRef) -> Self {
        let module = llvm!(LLVMGetGlobalParent(LLVMGetBasicBlockParent(block)));
        let builder = llvm!(LLVMCreateBuilderInContext(LLVMGetModuleContext(module)));
        llvm!(LLVMPositionBuilderAtEnd(builder, block));
        Self(builder)
    }

    /// The handle that LLVM's C API has for the builder.
    pub fn raw(&self) -> LLVMBuilderRef {
        self.0
    }

    /// The address some bytes past another.
    pub fn byte_offset(&self, base: LLVMValueRef, bytes: u64) -> LLVMValueRef {
        let context = llvm!(LLVMGetTypeContext(LLVMTypeOf(base)));
        let i8 = llvm!(LLVMInt8TypeInContext(context));
        let mut at = llvm!(LLVMConstInt(LLVMInt64TypeInContext(context), bytes, 0));
        llvm!(LLVMBuildInBoundsGEP2(self.0, i8, base, &mut at, 1, c"".as_ptr()))
    }

    /// Inserts a call of `function`.
    pub fn call(&self, function: LLVMValueRef, arguments: &mut [LLVMValueRef]) -> LLVMValueRef {
        let (ty, count) = (value_type(function), arguments.len() as c_uint);
        llvm!(LLVMBuildCall2(
            self.0,
            ty,
            function,
            arguments.as_mut_ptr(),
            count,
            c"".as_ptr()
        ))
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        llvm!(LLVMDisposeBuilder(self.0));
    }
}
