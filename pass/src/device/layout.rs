//! Sizes and alignments as the host's data layout has them; the device's is the same for all that
//! both sides see.
use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::target::*;

use super::ir::*;

/// The data layout of one module.
#[derive(Clone, Copy)]
pub struct Layout(LLVMTargetDataRef);

impl Layout {
    /// The layout of a module, valid while it lives.
    pub fn of(module: LLVMModuleRef) -> Self {
        Self(llvm!(LLVMGetModuleDataLayout(module)))
    }

    /// The bytes a value takes in memory.
    pub fn size(self, ty: LLVMTypeRef) -> u64 {
        llvm!(LLVMABISizeOfType(self.0, ty))
    }

    /// The alignment a type has by itself.
    pub fn align(self, ty: LLVMTypeRef) -> u64 {
        u64::from(llvm!(LLVMABIAlignmentOfType(self.0, ty))).max(1)
    }

    /// The bytes before an element of a structure, or of an array.
    pub fn offset(self, ty: LLVMTypeRef, element: u32) -> u64 {
        match kind(ty) {
            LLVMTypeKind::LLVMStructTypeKind => llvm!(LLVMOffsetOfElement(self.0, ty, element)),
            _ => u64::from(element) * self.size(llvm!(LLVMGetElementType(ty))),
        }
    }

    /// The alignment of a global.
    pub fn align_of_global(self, global: LLVMValueRef) -> u64 {
        let stated = u64::from(llvm!(LLVMGetAlignment(global)));
        if stated != 0 {
            stated
        } else {
            self.align(value_type(global))
        }
    }

    /// The byte offsets at which a value of this type holds pointers.
    pub fn pointers(self, ty: LLVMTypeRef) -> Vec<u64> {
        let mut found = Vec::new();
        self.collect_pointers(ty, 0, &mut found);
        found
    }

    fn collect_pointers(self, ty: LLVMTypeRef, at: u64, found: &mut Vec<u64>) {
        match kind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => found.push(at),
            LLVMTypeKind::LLVMStructTypeKind => {
                for element in 0..llvm!(LLVMCountStructElementTypes(ty)) {
                    let offset = llvm!(LLVMOffsetOfElement(self.0, ty, element));
                    self.collect_pointers(llvm!(LLVMStructGetTypeAtIndex(ty, element)), at + offset, found);
                }
            }
            LLVMTypeKind::LLVMArrayTypeKind => {
                let element = llvm!(LLVMGetElementType(ty));
                let (size, first) = (self.size(element), found.len());
                self.collect_pointers(element, at, found);
                let pattern: Vec<u64> = found[first..].to_vec();
                for index in 1..llvm!(LLVMGetArrayLength2(ty)) {
                    found.extend(pattern.iter().map(|offset| offset + index * size));
                }
            }
            _ => {}
        }
    }
}

/// The next multiple of an alignment.
pub fn align_up(value: u64, align: u64) -> u64 {
    value.div_ceil(align) * align
}
