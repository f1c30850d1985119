//! Estimates what a kernel needs of a multiprocessor: registers, and stack.
//!
//! Registers are estimated as the most values that are alive at once, in 32-bit words, plus a few for
//! addresses and calls: enough to distinguish a light kernel from a heavy one.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::callgraph::Reach;
use super::ir::*;
use super::layout::Layout;

/// What the ABI and addressing take besides the values themselves.
const OVERHEAD: u64 = 10;
/// The bounds that the GPU sets.
const MIN_REGISTERS: u64 = 16;
const MAX_REGISTERS: u64 = 255;
/// Functions with more instructions than this are not analysed: they take all registers.
const TOO_LONG: usize = 20_000;

/// Registers per thread of a kernel.
pub fn registers(layout: Layout, reach: &Reach) -> u32 {
    let words = reach
        .functions
        .iter()
        .map(|&function| most_alive(layout, function))
        .max()
        .unwrap_or(0);
    (words + OVERHEAD).clamp(MIN_REGISTERS, MAX_REGISTERS) as u32
}

/// Bytes of stack that the variables of all functions take which a kernel can reach, each counted
/// once: deeper recursion takes more.
pub fn stack_bytes(layout: Layout, reach: &Reach) -> u64 {
    let reached = reach
        .functions
        .iter()
        .flat_map(|&function| instructions(function));
    let allocas = reached.filter(|&at| opcode(at) == LLVMOpcode::LLVMAlloca);
    allocas
        .map(|at| layout.size(llvm!(LLVMGetAllocatedType(at))))
        .sum()
}

/// The most 32-bit words alive at any point of a function.
fn most_alive(layout: Layout, function: LLVMValueRef) -> u64 {
    let blocks: Vec<Vec<LLVMValueRef>> = blocks(function).into_iter().map(block_instructions).collect();
    if blocks.iter().map(Vec::len).sum::<usize>() > TOO_LONG {
        return MAX_REGISTERS;
    }
    let index: HashMap<LLVMBasicBlockRef, usize> = blocks
        .iter()
        .enumerate()
        .map(|(at, block)| (llvm!(LLVMGetInstructionParent(block[0])), at))
        .collect();
    let is_local = |value: LLVMValueRef| is_instruction(value) || !llvm!(LLVMIsAArgument(value)).is_null();
    // Alive at the end of each block, until nothing changes; a phi's operand is alive where it comes from.
    let mut alive_out: Vec<HashSet<LLVMValueRef>> = vec![HashSet::new(); blocks.len()];
    let mut most = 0;
    let mut changed = true;
    while changed {
        (changed, most) = (false, 0);
        for (at, block) in blocks.iter().enumerate().rev() {
            let mut alive = alive_out[at].clone();
            let mut words: u64 = alive.iter().map(|&value| self::words(layout, value)).sum();
            most = most.max(words);
            for &instruction in block.iter().rev() {
                if alive.remove(&instruction) {
                    words -= self::words(layout, instruction);
                }
                if opcode(instruction) == LLVMOpcode::LLVMPHI {
                    continue;
                }
                for operand in operands(instruction)
                    .into_iter()
                    .filter(|&operand| is_local(operand))
                {
                    if alive.insert(operand) {
                        words += self::words(layout, operand);
                    }
                }
                most = most.max(words);
            }
            let parent = llvm!(LLVMGetInstructionParent(block[0]));
            for before in predecessors(parent) {
                let Some(&before) = index.get(&before) else {
                    continue;
                };
                let out = &mut alive_out[before];
                let length = out.len();
                out.extend(&alive);
                changed |= out.len() != length;
            }
            for &phi in block.iter().take_while(|&&at| opcode(at) == LLVMOpcode::LLVMPHI) {
                for incoming in 0..llvm!(LLVMCountIncoming(phi)) {
                    let value = llvm!(LLVMGetIncomingValue(phi, incoming));
                    let from = llvm!(LLVMGetIncomingBlock(phi, incoming));
                    if let Some(&from) = index.get(&from).filter(|_| is_local(value)) {
                        changed |= alive_out[from].insert(value);
                    }
                }
            }
        }
    }
    most
}

/// The 32-bit words of a value; conditions live in predicates of their own.
fn words(layout: Layout, value: LLVMValueRef) -> u64 {
    let ty = llvm!(LLVMTypeOf(value));
    let sized = llvm!(LLVMTypeIsSized(ty)) != 0;
    match type_text(ty).as_str() {
        "i1" => 0,
        _ if sized && opcode_or_none(value) != Some(LLVMOpcode::LLVMAlloca) => layout.size(ty).div_ceil(4),
        _ => 0,
    }
}

fn opcode_or_none(value: LLVMValueRef) -> Option<LLVMOpcode> {
    is_instruction(value).then(|| opcode(value))
}

/// The blocks that can go to a block.
fn predecessors(block: LLVMBasicBlockRef) -> Vec<LLVMBasicBlockRef> {
    let value = llvm!(LLVMBasicBlockAsValue(block));
    users(value)
        .into_iter()
        .filter(|&at| is_instruction(at))
        .map(|at| llvm!(LLVMGetInstructionParent(at)))
        .collect()
}
