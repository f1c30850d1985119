//! Slots: the memory of a function that holds device addresses, and everything done to it. It is local
//! variables, heap memory that the function allocates, and globals that no other function uses.
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use mgb_catalogue::report::ReasonCode;
use mgb_catalogue::{Class, Role};

use crate::host::collect::{Callee, Collected, argument_at};
use crate::host::ir::cfg::Cfg;
use crate::host::ir::helpers;
use crate::host::ir::memory;
use crate::host::ir::{Type, Value};
use crate::host::objects::launches::{self, KernelLaunch};
use crate::host::objects::summaries;
use crate::host::reason::Why;

/// One thing done to the memory of a local variable.
pub enum SlotAccess {
    /// The access reads bytes.
    Load { load: Value, part: VariableBytes },
    /// The access writes bytes.
    Store { store: Value, part: VariableBytes },
    /// An allocation writes a new device address there.
    Allocation { call: Value, part: VariableBytes },
    /// A launch reads an argument of this type there.
    Argument {
        call: Value,
        part: VariableBytes,
        ty: Type,
    },
    /// Its bytes are copied from another variable, or to one whose uses are all seen here; so many, where
    /// that is known.
    Copy {
        call: Value,
        part: VariableBytes,
        bytes: Option<i64>,
        other: Value,
        there: VariableBytes,
        into: bool,
    },
    /// Bytes whose source is not followed are copied there.
    Fill { call: Value },
    /// A function of this module that is given its address reads or writes these bytes of it, and no other.
    Called {
        call: Value,
        part: VariableBytes,
        bytes: i64,
    },
    /// Something that is not followed.
    Escape(Why),
}

/// Which bytes of a variable: from an offset, or any whole number of strides away from that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VariableBytes {
    /// The offset of the part in bytes.
    pub offset: i64,
    /// In bytes; 0 where it is the offset itself.
    pub stride: u64,
    /// The bytes from the offset that it lies within, those of an array; 0 where they are not known.
    pub within: u64,
}

impl VariableBytes {
    /// The bytes from this offset alone.
    pub fn at(offset: i64) -> Self {
        Self {
            offset,
            stride: 0,
            within: 0,
        }
    }

    /// The offset where it is the only one.
    pub fn exact(self) -> Option<i64> {
        (self.stride == 0).then_some(self.offset)
    }

    /// Of an address.
    pub fn of(module: LLVMModuleRef, address: Value) -> Self {
        let (_, offset, stride, within) = helpers::indexed_address(module, address);
        Self {
            offset,
            stride,
            within,
        }
    }

    /// Where it comes to lie as what is at `from` is copied to `to`.
    pub fn copied(self, from: VariableBytes, to: VariableBytes) -> Self {
        let stride = gcd(self.stride, gcd(from.stride, to.stride));
        Self {
            offset: self.offset - from.offset + to.offset,
            stride,
            within: 0,
        }
    }

    /// Whether a pointer here is one that this type has if a value of it is at `there`, or does not lie in it.
    pub fn is_typed(self, module: LLVMModuleRef, there: VariableBytes, ty: Type) -> bool {
        const MAX_POINTERS: usize = 256;
        let bytes = helpers::type_size(module, ty) as i64;
        let is_it = |offset: i64| match gcd(self.stride, there.stride) as i64 {
            0 => self.offset == there.offset + offset,
            stride => stride >= POINTER && (self.offset - there.offset - offset).rem_euclid(stride) == 0,
        };
        !there.overlaps(bytes, self, POINTER)
            || helpers::pointer_offsets(module, ty, MAX_POINTERS)
                .is_some_and(|all| all.into_iter().any(is_it))
    }

    /// Whether a pointer at `offset` may be what is here.
    pub fn may_be(self, offset: i64) -> bool {
        match self.stride {
            0 => self.offset == offset,
            stride => (offset - self.offset).rem_euclid(stride as i64) == 0,
        }
    }

    /// Whether `bytes` here overlap `others` there.
    pub fn overlaps(self, bytes: i64, there: VariableBytes, others: i64) -> bool {
        let reached = self.offset..self.offset.saturating_add(self.within as i64);
        if self.within > 0
            && there.stride == 0
            && (there.offset >= reached.end || there.offset + others <= reached.start)
        {
            return false;
        }
        match gcd(self.stride, there.stride) as i64 {
            0 => self.offset < there.offset + others && there.offset < self.offset + bytes,
            stride => {
                let behind = (there.offset - self.offset).rem_euclid(stride);
                behind < bytes || stride - behind < others
            }
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The bytes of a pointer.
pub const POINTER: i64 = 8;

/// Everything done to the memory of `variable`, which `is_own`.
pub fn accesses(
    collected: &Collected,
    cfg: &Cfg,
    launches: &[KernelLaunch],
    variable: Value,
) -> Vec<SlotAccess> {
    let mut found = Vec::new();
    let mut addresses = vec![variable];
    while let Some(pointer) = addresses.pop() {
        let part = VariableBytes::of(collected.module, pointer);
        for user in pointer.users() {
            match user.opcode() {
                // An address computed of constants.
                None => addresses.push(user),
                Some(
                    LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMBitCast | LLVMOpcode::LLVMAddrSpaceCast,
                ) => addresses.push(user),
                Some(LLVMOpcode::LLVMICmp) => {}
                Some(LLVMOpcode::LLVMStore) if user.operand(0) == pointer => {
                    if launches::fills_array(launches, user) && part.exact() == Some(0) {
                        found.extend(launches_reading(launches, pointer, part));
                    } else {
                        found.push(escape(
                            "the address of a variable that holds device pointers is stored",
                            user,
                        ));
                    }
                }
                Some(LLVMOpcode::LLVMLoad) => found.push(SlotAccess::Load { load: user, part }),
                Some(LLVMOpcode::LLVMStore) => found.push(SlotAccess::Store { store: user, part }),
                Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
                    found.extend(access_by_call(collected, cfg, user, pointer, part));
                }
                _ => found.push(escape(
                    "the address of a variable that holds device pointers is passed on",
                    user,
                )),
            }
        }
    }
    found
}

fn escape(text: &str, at: Value) -> SlotAccess {
    SlotAccess::Escape(Why::new(ReasonCode::AddressEscapes, text, at))
}

fn launches_reading(
    launches: &[KernelLaunch],
    storage: Value,
    part: VariableBytes,
) -> impl Iterator<Item = SlotAccess> {
    launches
        .iter()
        .filter(move |launch| launch.storage.contains(&storage))
        .map(move |launch| SlotAccess::Argument {
            call: launch.call,
            part,
            ty: storage.allocated_type(),
        })
}

fn access_by_call(
    collected: &Collected,
    cfg: &Cfg,
    call: Value,
    pointer: Value,
    part: VariableBytes,
) -> Vec<SlotAccess> {
    if call.is_marker() {
        return Vec::new();
    }
    match collected.callee(call) {
        Some(Callee::Runtime(entry)) => {
            let out = entry
                .position(Role::DevicePointerOut)
                .map(|at| argument_at(entry, at));
            let is_out = out.is_some_and(|at| call.operand(at) == pointer);
            if is_out && entry.class == Class::Alloc {
                return vec![SlotAccess::Allocation { call, part }];
            }
            let text = format!(
                "the address of a variable that holds device pointers goes to {}",
                entry.name
            );
            vec![SlotAccess::Escape(Why::new(
                ReasonCode::UntreatedCall,
                text,
                call,
            ))]
        }
        Some(Callee::Other(function)) if function.name().starts_with("llvm.memset.") => {
            let zeroes = call.operand(1).is_null();
            let overwritten = || escape("device pointers are overwritten byte by byte", call);
            (!zeroes).then(overwritten).into_iter().collect()
        }
        Some(Callee::Other(function)) if memory::copies_host_memory(function) => {
            let (to, from) = (call.operand(0), call.operand(1));
            let away = if to == pointer { from } else { to };
            let other = memory::address(away).0;
            // A constant holds no device pointer.
            if to == pointer && other.is_constant() {
                return Vec::new();
            }
            let into = to == pointer;
            vec![match memory::is_own(cfg, other) {
                true => SlotAccess::Copy {
                    call,
                    part,
                    bytes: call
                        .operand(2)
                        .constant()
                        .and_then(|bytes| i64::try_from(bytes).ok()),
                    other,
                    there: VariableBytes::of(collected.module, away),
                    into,
                },
                false if into => SlotAccess::Fill { call },
                false => SlotAccess::Escape(copied(call)),
            }]
        }
        Some(Callee::Other(_)) if memory::frees_host_memory(call) => Vec::new(),
        // What a destructor frees after `main` lives until then.
        Some(Callee::Other(_)) if summaries::is_freed_at_exit(collected, call, pointer) => Vec::new(),
        Some(Callee::Stub(_)) if passes_by_value(call, pointer) => types_by_value(call, pointer)
            .map(|ty| SlotAccess::Argument { call, part, ty })
            .collect(),
        Some(Callee::Stub(_)) if launches::is_in_memory(pointer) => {
            let ty = memory::address(pointer).0.allocated_type();
            vec![SlotAccess::Argument { call, part, ty }]
        }
        Some(Callee::Other(function)) => match summaries::touched(collected, call, pointer) {
            Some(touched) if part.exact().is_some() => touched
                .into_iter()
                .map(|touch| SlotAccess::Called {
                    call,
                    part: VariableBytes::at(part.offset + touch.start),
                    bytes: touch.end - touch.start,
                })
                .collect(),
            _ => vec![SlotAccess::Escape(given_to(function, call))],
        },
        _ => vec![escape(
            "the address of a variable that holds device pointers is passed on",
            call,
        )],
    }
}

/// Why a copy of a structure is not followed.
pub fn copied(call: Value) -> Why {
    let text = "a structure that holds device pointers is copied";
    Why::new(ReasonCode::PointersInMemory, text, call)
}

/// Why a function that is given the address of a variable is not followed.
pub fn given_to(function: Value, call: Value) -> Why {
    let name = helpers::demangle(&function.name());
    let text = format!("the address of a variable that holds device pointers goes to {name}");
    Why::new(ReasonCode::AddressEscapes, text, call)
}

/// Whether a call is given the bytes at this address, not the address.
fn passes_by_value(call: Value, pointer: Value) -> bool {
    let is_given = |&(_, argument): &(usize, Value)| argument == pointer;
    let given = call.arguments().enumerate().filter(is_given).count();
    types_by_value(call, pointer).count() == given
}

/// The types of the values that a call is given from this address.
fn types_by_value(call: Value, pointer: Value) -> impl Iterator<Item = Type> {
    let given = call
        .arguments()
        .enumerate()
        .filter(move |&(_, argument)| argument == pointer);
    given.filter_map(move |(at, _)| helpers::byval_type(call, at as u32))
}

/// Whether a value of this type overlaps a pointer kept elsewhere in the variable without being it.
pub fn overlaps(module: LLVMModuleRef, value: Value, part: VariableBytes, pointer: VariableBytes) -> bool {
    let is_it = pointer.exact().is_some_and(|slot| part.may_be(slot))
        || (pointer.exact().is_none() && part == pointer);
    if value.ty().is_pointer() && is_it {
        return false;
    }
    part.overlaps(helpers::type_size(module, value.ty()) as i64, pointer, POINTER)
}
