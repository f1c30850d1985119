//! Locations: bytes of memory by the expression through which the program reaches them.
use std::ops::Range;
use std::rc::Rc;

use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::prelude::LLVMModuleRef;

use crate::host::ir::{Type, Value, helpers, memory};

/// How many pointers are followed from one to the next.
pub const DEPTH: u32 = 4;

/// Some bytes of memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// What the address is computed from.
    pub base: Base,
    /// Bytes from the base; 0 where that is known at run time only.
    pub offset: i64,
    /// The size of the location in bytes.
    pub size: i64,
    /// The address, where the offset is known at run time only.
    pub index: Option<Value>,
}

/// What an address is computed from.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Base {
    /// An alloca, a global, or a pointer.
    Value(Value),
    /// The pointer that is kept at a location.
    Kept(Rc<Location>),
}

impl Location {
    /// Of a value of this type at an address.
    pub fn of(module: LLVMModuleRef, address: Value, ty: Type) -> Self {
        Self::within(module, address, ty, DEPTH)
    }

    fn within(module: LLVMModuleRef, address: Value, ty: Type, depth: u32) -> Self {
        let (base, offset) = memory::address(address);
        let is_kept = base.is(LLVMOpcode::LLVMLoad) && depth > 0;
        Self {
            base: match is_kept {
                true => Base::Kept(Rc::new(Self::within(
                    module,
                    base.operand(0),
                    base.ty(),
                    depth - 1,
                ))),
                false => Base::Value(base),
            },
            offset: offset.unwrap_or(0),
            size: helpers::type_size(module, ty) as i64,
            index: offset.is_none().then_some(address),
        }
    }

    /// Whether it is reached through this base.
    pub fn is_reached_from(&self, base: &Base) -> bool {
        self.base == *base || matches!(&self.base, Base::Kept(location) if location.is_reached_from(base))
    }

    /// Whether another location from the same base may have bytes of this one.
    pub fn overlaps(&self, other: &Location) -> bool {
        self.index.is_some()
            || other.index.is_some()
            || (self.offset < other.offset + other.size && other.offset < self.offset + self.size)
    }

    /// Its bytes, counted from the base; none where the offset is known at run time only.
    pub fn range(&self) -> Option<Range<i64>> {
        let end = self.offset.checked_add(self.size)?;
        self.index.is_none().then_some(self.offset..end)
    }
}

impl Base {
    /// Of an address.
    pub fn of(module: LLVMModuleRef, address: Value) -> Self {
        Location::of(module, address, address.ty()).base
    }
}
