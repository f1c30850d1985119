//! Twins of a process that is gone.
//!
//! mgbd keeps what the driver knows of a process that was killed at work until that work is done, since the
//! driver would end every program on the GPU with it. So one worker of a launch asks, with each of its tickets,
//! for a word that mgbd writes then, and stops its launch and all that may come behind it: only twins do, and
//! what they would compute with is half done. That word is in the host's memory, which a GPU reads in a microsecond, one read after the other: all
//! workers cannot ask.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMIntPredicate};

use super::super::helpers;
use super::super::ir::*;
use super::frame::TwinFrame;
use super::tickets::ControlValues;

/// How many control blocks there are, and the bytes of each: as lazyrt makes them.
const BLOCKS: u64 = 64;
const BLOCK_BYTES: u64 = 64;
/// What stops a launch, in the next ticket's word.
const STOP: u64 = 1 << 62;

/// Has a worker that `asks` look for the word, at the end of `look`. Returns the block where it goes on.
pub fn ask(
    frame: &TwinFrame,
    look: LLVMBasicBlockRef,
    asks: LLVMValueRef,
    control: &ControlValues,
) -> LLVMBasicBlockRef {
    let context = llvm!(LLVMGetModuleContext(frame.module));
    let after = llvm!(LLVMGetNextBasicBlock(look));
    let add = |name: &std::ffi::CStr| llvm!(LLVMInsertBasicBlockInContext(context, after, name.as_ptr()));
    let [ask, halt, goes_on] = [c"parts.ask", c"parts.halt", c"parts.compare"].map(add);
    llvm!(LLVMBuildCondBr(Builder::at_end(look).raw(), asks, ask, goes_on));

    let builder = Builder::at_end(ask);
    let word = llvm!(LLVMBuildLoad2(
        builder.raw(),
        frame.i32,
        control.gone,
        c"".as_ptr()
    ));
    llvm!(LLVMSetVolatile(word, 1));
    let is_there = frame.is_zero(&builder, word);
    llvm!(LLVMBuildCondBr(builder.raw(), is_there, goes_on, halt));

    let builder = Builder::at_end(halt);
    let raw = builder.raw();
    let number = |value| llvm!(LLVMConstInt(frame.i64, value, 0));
    let at = llvm!(LLVMBuildPhi(raw, frame.i64, c"".as_ptr()));
    let i8 = llvm!(LLVMInt8TypeInContext(context));
    let block = llvm!(LLVMBuildGEP2(
        raw,
        i8,
        control.all,
        [at].as_mut_ptr(),
        1,
        c"".as_ptr()
    ));
    let stopped = llvm!(LLVMBuildAtomicRMW(
        raw,
        LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpOr,
        block,
        number(STOP),
        LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic,
        0
    ));
    helpers::scope_to_gpu(stopped);
    let next = llvm!(LLVMBuildAdd(raw, at, number(BLOCK_BYTES), c"".as_ptr()));
    let equal = LLVMIntPredicate::LLVMIntEQ;
    let is_last = llvm!(LLVMBuildICmp(
        raw,
        equal,
        next,
        number(BLOCKS * BLOCK_BYTES),
        c"".as_ptr()
    ));
    llvm!(LLVMBuildCondBr(raw, is_last, goes_on, halt));
    let (mut values, mut from) = ([number(0), next], [ask, halt]);
    llvm!(LLVMAddIncoming(at, values.as_mut_ptr(), from.as_mut_ptr(), 2));
    goes_on
}
