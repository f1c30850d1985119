//! How far an address is from the one that it is counted from, and which address that surely is.
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{LLVMOpcode, LLVMTypeKind};

use crate::device::ir::*;
use crate::device::layout::Layout;

/// How many steps a pointer is followed back.
const STEPS: u32 = 64;

/// The bytes that an address computation adds at least, and how many more it may add: an index that is not
/// known stays within the array that it is of. None where it may add any.
pub(super) fn distance(layout: Layout, computation: LLVMValueRef) -> Option<(i64, i64)> {
    if kind(llvm!(LLVMTypeOf(computation))) != LLVMTypeKind::LLVMPointerTypeKind {
        return None;
    }
    let mut ty = llvm!(LLVMGetGEPSourceElementType(computation));
    let (mut by, mut span) = (0_i64, 0_i64);
    for (at, index) in operands(computation).into_iter().skip(1).enumerate() {
        let constant = constant(index);
        if at == 0 {
            by = constant?.checked_mul(layout.size(ty) as i64)?;
            continue;
        }
        match kind(ty) {
            LLVMTypeKind::LLVMStructTypeKind => {
                let element = u32::try_from(constant?).ok()?;
                by = by.checked_add(layout.offset(ty, element) as i64)?;
                ty = llvm!(LLVMStructGetTypeAtIndex(ty, element));
            }
            LLVMTypeKind::LLVMArrayTypeKind => {
                let count = llvm!(LLVMGetArrayLength2(ty)) as i64;
                ty = llvm!(LLVMGetElementType(ty));
                let size = layout.size(ty) as i64;
                match constant {
                    Some(index) => by = by.checked_add(index.checked_mul(size)?)?,
                    None => span = span.checked_add((count - 1).max(0).checked_mul(size)?)?,
                }
            }
            _ => return None,
        }
    }
    Some((by, span))
}

/// The value of an integer constant.
pub(super) fn constant(value: LLVMValueRef) -> Option<i64> {
    let is_constant = !llvm!(LLVMIsAConstantInt(value)).is_null();
    let fits = || llvm!(LLVMGetIntTypeWidth(LLVMTypeOf(value))) <= 64;
    (is_constant && fits()).then(|| llvm!(LLVMConstIntGetSExtValue(value)))
}

/// Whether two integers are the addresses of bytes of one object for certain: their difference says nothing of
/// where it lies.
pub(super) fn are_of_one(one: LLVMValueRef, other: LLVMValueRef) -> bool {
    let base = |integer| {
        let is_address = is_instruction(integer) && opcode(integer) == LLVMOpcode::LLVMPtrToInt;
        is_address.then(|| Bases::of(llvm!(LLVMGetOperand(integer, 0))))?
    };
    base(one).is_some_and(|found| base(other) == Some(found))
}

/// The search for the parameter that a pointer is counted from on all ways.
struct Bases {
    found: Option<LLVMValueRef>,
    seen: Vec<LLVMValueRef>,
    steps: u32,
}

impl Bases {
    fn of(pointer: LLVMValueRef) -> Option<LLVMValueRef> {
        let mut search = Self {
            found: None,
            seen: Vec::new(),
            steps: STEPS,
        };
        search.follow(pointer)?;
        search.found
    }

    fn follow(&mut self, value: LLVMValueRef) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        if self.seen.contains(&value) {
            return Some(());
        }
        self.seen.push(value);
        if !llvm!(LLVMIsAArgument(value)).is_null() {
            let is_same = self.found.is_none_or(|found| found == value);
            self.found = Some(value);
            return is_same.then_some(());
        }
        if !is_instruction(value) {
            return None;
        }
        let operand = |at| llvm!(LLVMGetOperand(value, at));
        match opcode(value) {
            LLVMOpcode::LLVMGetElementPtr
            | LLVMOpcode::LLVMBitCast
            | LLVMOpcode::LLVMAddrSpaceCast
            | LLVMOpcode::LLVMFreeze => self.follow(operand(0)),
            LLVMOpcode::LLVMPHI => operands(value).into_iter().try_for_each(|one| self.follow(one)),
            LLVMOpcode::LLVMSelect => {
                self.follow(operand(1))?;
                self.follow(operand(2))
            }
            LLVMOpcode::LLVMLoad => self.stored_in(operand(0)),
            _ => None,
        }
    }

    /// All that is ever in a local variable that is only read and written.
    fn stored_in(&mut self, variable: LLVMValueRef) -> Option<()> {
        let is_local = is_instruction(variable) && opcode(variable) == LLVMOpcode::LLVMAlloca;
        is_local.then_some(())?;
        for user in users(variable) {
            match opcode(user) {
                LLVMOpcode::LLVMLoad => {}
                LLVMOpcode::LLVMStore if llvm!(LLVMGetOperand(user, 0)) != variable => {
                    self.follow(llvm!(LLVMGetOperand(user, 0)))?;
                }
                LLVMOpcode::LLVMCall if super::known::is_marker(user) => {}
                _ => return None,
            }
        }
        Some(())
    }
}
