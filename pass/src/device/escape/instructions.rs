//! Rules from LLVM's IR: what each instruction does with what it is given.
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::addresses::{self, constant, distance};
use super::set::Token;
use super::slots::{RuleReader, ValueSlot};
use super::solve::{EscapeRule, ValueId};
use crate::device::ir::*;

/// A mask below this leaves too little of an address to make one of it.
const FEW: i64 = 1 << 16;
/// The bits of such a number.
const FEW_BITS: u32 = 16;

/// How an address is published by an instruction that writes to memory, and by one that is not known.
pub(super) const STORES: &str = "stores it in memory";
pub(super) const EXCHANGES: &str = "puts it into memory by an atomic operation";
const UNKNOWN: &str = "uses it in a way that is not followed";

impl RuleReader {
    /// The rules of an instruction of this function.
    pub(super) fn instruction(&mut self, function: LLVMValueRef, one: LLVMValueRef) {
        let operand = |at| llvm!(LLVMGetOperand(one, at));
        let size = |reader: &Self, value| reader.layout.size(llvm!(LLVMTypeOf(value))) as i64;
        match opcode(one) {
            LLVMOpcode::LLVMAlloca => {
                let place = self.solver.place();
                let node = self.node(one);
                self.solver.hold(node, Token::Local(place, 0, 0));
            }
            LLVMOpcode::LLVMLoad => {
                let (at, size) = (self.node(operand(0)), size(self, one));
                self.load(one, at, size);
            }
            LLVMOpcode::LLVMStore => {
                let (from, at) = (self.slot(operand(0)), self.node(operand(1)));
                let size = size(self, operand(0));
                self.store(at, from, Some(size), STORES);
            }
            LLVMOpcode::LLVMGetElementPtr => {
                let (to, from) = (self.node(one), self.node(operand(0)));
                let by = distance(self.layout, one);
                self.solver.rule(EscapeRule::Move { to, from, by });
                for index in operands(one).into_iter().skip(1) {
                    self.compute(to, index);
                }
            }
            LLVMOpcode::LLVMBitCast
            | LLVMOpcode::LLVMAddrSpaceCast
            | LLVMOpcode::LLVMPtrToInt
            | LLVMOpcode::LLVMZExt
            | LLVMOpcode::LLVMSExt
            | LLVMOpcode::LLVMFreeze => self.same(one, operand(0)),
            LLVMOpcode::LLVMIntToPtr => {
                self.same(one, operand(0));
                let node = self.node(one);
                self.solver.hold(node, Token::Unknown);
            }
            LLVMOpcode::LLVMTrunc if width(one).is_some_and(|bits| bits <= FEW_BITS) => {
                self.few_bits(one, operand(0))
            }
            LLVMOpcode::LLVMTrunc => self.same(one, operand(0)),
            LLVMOpcode::LLVMPHI => operands(one).into_iter().for_each(|from| self.same(one, from)),
            LLVMOpcode::LLVMSelect => {
                self.same(one, operand(1));
                self.same(one, operand(2));
            }
            LLVMOpcode::LLVMAdd => self.sum(one, operand(0), operand(1)),
            LLVMOpcode::LLVMSub if addresses::are_of_one(operand(0), operand(1)) => {}
            LLVMOpcode::LLVMSub => {
                let to = self.node(one);
                self.sum(one, operand(0), operand(1));
                self.compute(to, operand(1));
            }
            LLVMOpcode::LLVMAnd | LLVMOpcode::LLVMOr => self.bitwise(one, operand(0), operand(1)),
            LLVMOpcode::LLVMURem if is_power_below(operand(1), FEW) => self.few_bits(one, operand(0)),
            LLVMOpcode::LLVMShl
            | LLVMOpcode::LLVMLShr
            | LLVMOpcode::LLVMAShr
            | LLVMOpcode::LLVMXor
            | LLVMOpcode::LLVMMul
            | LLVMOpcode::LLVMUDiv
            | LLVMOpcode::LLVMSDiv
            | LLVMOpcode::LLVMURem
            | LLVMOpcode::LLVMSRem
            | LLVMOpcode::LLVMFAdd
            | LLVMOpcode::LLVMFSub
            | LLVMOpcode::LLVMFMul
            | LLVMOpcode::LLVMFDiv
            | LLVMOpcode::LLVMFRem
            | LLVMOpcode::LLVMFNeg
            | LLVMOpcode::LLVMFPToUI
            | LLVMOpcode::LLVMFPToSI
            | LLVMOpcode::LLVMUIToFP
            | LLVMOpcode::LLVMSIToFP
            | LLVMOpcode::LLVMFPTrunc
            | LLVMOpcode::LLVMFPExt
            | LLVMOpcode::LLVMExtractElement
            | LLVMOpcode::LLVMInsertElement
            | LLVMOpcode::LLVMShuffleVector => {
                let to = self.node(one);
                operands(one).into_iter().for_each(|from| self.compute(to, from));
            }
            LLVMOpcode::LLVMExtractValue => self.extract(one, operand(0)),
            LLVMOpcode::LLVMInsertValue => self.insert(one, operand(0), operand(1)),
            LLVMOpcode::LLVMAtomicRMW => {
                let (at, size) = (self.node(operand(0)), size(self, operand(1)));
                let from = self.slot(operand(1));
                self.store(at, from, Some(size), EXCHANGES);
                self.load(one, at, size);
            }
            LLVMOpcode::LLVMAtomicCmpXchg => {
                let (at, size) = (self.node(operand(0)), size(self, operand(2)));
                let from = self.slot(operand(2));
                self.store(at, from, Some(size), EXCHANGES);
                self.load(one, at, size);
            }
            LLVMOpcode::LLVMCall => self.call(one),
            LLVMOpcode::LLVMRet if llvm!(LLVMGetNumOperands(one)) > 0 => {
                let from = self.slot(operand(0));
                if let Some(to) = self.result(function) {
                    self.copy(to, from);
                }
            }
            // What is compared gives one bit away; where control goes is not followed.
            LLVMOpcode::LLVMICmp
            | LLVMOpcode::LLVMFCmp
            | LLVMOpcode::LLVMBr
            | LLVMOpcode::LLVMSwitch
            | LLVMOpcode::LLVMRet
            | LLVMOpcode::LLVMFence
            | LLVMOpcode::LLVMUnreachable => {}
            _ => {
                let how = self.solver.way(UNKNOWN);
                for value in operands(one) {
                    if !llvm!(LLVMIsABasicBlock(value)).is_null() {
                        continue;
                    }
                    let slot = self.slot(value);
                    self.publish(slot, how);
                }
                if let ValueSlot::One(node) = self.slot(one) {
                    self.solver.hold(node, Token::Unknown);
                }
            }
        }
    }

    /// The node of a value that is no structure; of one, a node that holds all that is in it.
    pub(super) fn node(&mut self, value: LLVMValueRef) -> ValueId {
        match self.slot(value) {
            ValueSlot::One(node) => node,
            ValueSlot::Many(place) => {
                let node = self.solver.node();
                let size = self.layout.size(llvm!(LLVMTypeOf(value))) as i64;
                self.solver.rule(EscapeRule::Extract {
                    to: node,
                    from: place,
                    at: 0,
                    size,
                });
                node
            }
        }
    }

    /// One value may be another.
    pub(super) fn same(&mut self, to: LLVMValueRef, from: LLVMValueRef) {
        let (to, from) = (self.slot(to), self.slot(from));
        self.copy(to, from);
    }

    /// A number is computed of a value.
    pub(super) fn compute(&mut self, to: ValueId, from: LLVMValueRef) {
        let from = self.node(from);
        self.solver.rule(EscapeRule::Compute { to, from });
    }

    fn few_bits(&mut self, to: LLVMValueRef, from: LLVMValueRef) {
        let (to, from) = (self.node(to), self.node(from));
        self.solver.rule(EscapeRule::FewBits { to, from });
    }

    fn sum(&mut self, to: LLVMValueRef, one: LLVMValueRef, other: LLVMValueRef) {
        let (to, one, other) = (self.node(to), self.node(one), self.node(other));
        self.solver.rule(EscapeRule::Sum { to, one, other });
    }

    /// A mask leaves a few bits, or clears a few of an address, which stays one.
    fn bitwise(&mut self, to: LLVMValueRef, one: LLVMValueRef, other: LLVMValueRef) {
        let is_and = opcode(to) == LLVMOpcode::LLVMAnd;
        for (value, mask) in [(one, constant(other)), (other, constant(one))] {
            match mask {
                Some(mask) if is_and && (0..FEW).contains(&mask) => return self.few_bits(to, value),
                Some(mask) if (-FEW..FEW).contains(&mask) => return self.sum(to, one, other),
                _ => {}
            }
        }
        let to = self.node(to);
        self.compute(to, one);
        self.compute(to, other);
    }

    /// What is read at an address.
    pub(super) fn load(&mut self, to: LLVMValueRef, at: ValueId, size: i64) {
        let rule = match self.slot(to) {
            ValueSlot::One(to) => EscapeRule::Load {
                to,
                at,
                size: Some(size),
            },
            ValueSlot::Many(to) => EscapeRule::LoadInto {
                to,
                at,
                size: Some(size),
            },
        };
        self.solver.rule(rule);
    }

    /// Something is written at an address.
    pub(super) fn store(&mut self, at: ValueId, from: ValueSlot, size: Option<i64>, how: &str) {
        let how = self.solver.way(how);
        self.solver.rule(match from {
            ValueSlot::One(from) => EscapeRule::Store { at, from, size, how },
            ValueSlot::Many(from) => EscapeRule::StoreFrom { at, from, how },
        });
    }

    fn extract(&mut self, to: LLVMValueRef, from: LLVMValueRef) {
        let (at, size) = self.field(to, from);
        let rule = match (self.slot(to), self.slot(from)) {
            (ValueSlot::One(to), ValueSlot::Many(from)) => EscapeRule::Extract { to, from, at, size },
            (ValueSlot::Many(to), ValueSlot::Many(from)) => EscapeRule::ExtractInto { to, from, at, size },
            (_, ValueSlot::One(_)) => unreachable!("only structures have fields"),
        };
        self.solver.rule(rule);
    }

    fn insert(&mut self, to: LLVMValueRef, structure: LLVMValueRef, value: LLVMValueRef) {
        self.same(to, structure);
        let (at, _) = self.field(to, to);
        let size = self.layout.size(llvm!(LLVMTypeOf(value))) as i64;
        let rule = match (self.slot(to), self.slot(value)) {
            (ValueSlot::Many(to), ValueSlot::One(from)) => EscapeRule::Insert { to, at, size, from },
            (ValueSlot::Many(to), ValueSlot::Many(from)) => EscapeRule::InsertFrom { to, at, from },
            (ValueSlot::One(_), _) => unreachable!("only structures have fields"),
        };
        self.solver.rule(rule);
    }

    /// Where the field lies that an instruction names by its indices, and the bytes of the instruction's value.
    fn field(&self, instruction: LLVMValueRef, structure: LLVMValueRef) -> (i64, i64) {
        let mut ty = llvm!(LLVMTypeOf(structure));
        let count = llvm!(LLVMGetNumIndices(instruction)) as usize;
        // SAFETY: LLVM gives the address of as many indices as it says, which live with the instruction.
        let indices = unsafe { std::slice::from_raw_parts(LLVMGetIndices(instruction), count) };
        let mut offset = 0;
        for &index in indices {
            offset += self.layout.offset(ty, index);
            ty = element(ty, index);
        }
        let size = self.layout.size(llvm!(LLVMTypeOf(instruction)));
        (offset as i64, size as i64)
    }
}

/// The type of an element of a structure or an array.
fn element(ty: LLVMTypeRef, index: u32) -> LLVMTypeRef {
    match kind(ty) {
        inkwell::llvm_sys::LLVMTypeKind::LLVMStructTypeKind => llvm!(LLVMStructGetTypeAtIndex(ty, index)),
        _ => llvm!(LLVMGetElementType(ty)),
    }
}

fn width(value: LLVMValueRef) -> Option<u32> {
    let ty = llvm!(LLVMTypeOf(value));
    let is_integer = kind(ty) == inkwell::llvm_sys::LLVMTypeKind::LLVMIntegerTypeKind;
    is_integer.then(|| llvm!(LLVMGetIntTypeWidth(ty)))
}

fn is_power_below(value: LLVMValueRef, limit: i64) -> bool {
    constant(value).is_some_and(|value| value > 0 && value < limit && value.count_ones() == 1)
}
