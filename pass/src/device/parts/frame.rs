//! A twin as it is built: its code, and what all steps need of it.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

use super::super::ir::*;

/// Shared memory that a twin has beside the original's, in bytes.
pub const SHARED_BYTES: u64 = 16;

/// What the workers of a twin do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// They take one block each.
    TakeOne,
    /// They take tickets until none is left. Threads of a block have nothing in common that the next one's
    /// could find too early.
    Loop,
    /// The same, but a block begins when all threads of the one before have ended, not only those of a warp.
    LoopTogether,
}

/// The phis have these values where they are come to from there.
pub fn come(phis: &[LLVMValueRef], values: &[LLVMValueRef], from: LLVMBasicBlockRef) {
    for (&phi, &value) in phis.iter().zip(values) {
        llvm!(LLVMAddIncoming(phi, [value].as_mut_ptr(), [from].as_mut_ptr(), 1));
    }
}

/// The loop around a kernel's code.
pub struct TwinFrame {
    pub module: LLVMModuleRef,
    pub twin: LLVMValueRef,
    pub control: LLVMValueRef,
    pub body: LLVMBasicBlockRef,
    pub returns: Vec<LLVMValueRef>,
    pub i32: LLVMTypeRef,
    pub i64: LLVMTypeRef,
}

impl TwinFrame {
    /// Around a copy of the kernel, which takes the control block last.
    pub fn new(module: LLVMModuleRef, twin: LLVMValueRef) -> Self {
        let context = llvm!(LLVMGetModuleContext(module));
        Self {
            module,
            twin,
            control: *parameters(twin).last().expect("one was added"),
            body: llvm!(LLVMGetEntryBasicBlock(twin)),
            returns: instructions(twin)
                .into_iter()
                .filter(|&at| opcode(at) == LLVMOpcode::LLVMRet)
                .collect(),
            i32: llvm!(LLVMInt32TypeInContext(context)),
            i64: llvm!(LLVMInt64TypeInContext(context)),
        }
    }

    pub fn word(&self, value: u64) -> LLVMValueRef {
        llvm!(LLVMConstInt(self.i32, value, 0))
    }

    pub fn is_zero(&self, builder: &Builder, value: LLVMValueRef) -> LLVMValueRef {
        let equal = LLVMIntPredicate::LLVMIntEQ;
        llvm!(LLVMBuildICmp(
            builder.raw(),
            equal,
            value,
            self.word(0),
            c"".as_ptr()
        ))
    }
}
