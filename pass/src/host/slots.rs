//! Slots: the local variables that hold device addresses, and everything done to their memory.
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use mgb_catalogue::report::Code;
use mgb_catalogue::{Class, Role};

use super::collect::{Callee, Collected, argument_at};
use super::helpers;
use super::ir::Value;
use super::launches::{self, Launch};
use super::place::Why;
use super::prepare::is_marker;

/// One thing done to the memory of a local variable.
pub enum Access {
    /// Reads the bytes from this offset.
    Load { load: Value, offset: i64 },
    /// Writes the bytes from this offset.
    Store { store: Value, offset: i64 },
    /// An allocation writes a new device address there.
    Allocation,
    /// A launch reads its argument there.
    Argument { launch: usize },
    /// Something that is not followed.
    Escape(Why),
}

/// The local variable or other base that an address is in, and the offset where it is constant.
pub fn address(pointer: Value) -> (Value, Option<i64>) {
    let (base, offset) = helpers::base_and_offset(pointer);
    if base.is(LLVMOpcode::LLVMGetElementPtr) {
        return (address(base.operand(0)).0, None);
    }
    (base, Some(offset))
}

/// What hands out host memory: `malloc`, `calloc`, and C++'s `new`.
const HOST_ALLOCATORS: [&str; 4] = ["malloc", "calloc", "_Znwm", "_Znam"];

/// Whether a pointer is surely into host memory.
pub fn is_host_memory(pointer: Value) -> bool {
    let (base, _) = address(pointer);
    let callee = base.callee().map(|callee| callee.name());
    base.is(LLVMOpcode::LLVMAlloca) || callee.is_some_and(|name| HOST_ALLOCATORS.contains(&name.as_str()))
}

/// Everything done to the memory of `variable`, an alloca.
pub fn accesses(collected: &Collected, launches: &[Launch], variable: Value) -> Vec<Access> {
    let mut found = Vec::new();
    let mut addresses = vec![variable];
    while let Some(pointer) = addresses.pop() {
        let (base, offset) = address(pointer);
        debug_assert_eq!(base, variable);
        for user in pointer.users() {
            match (user.opcode(), offset) {
                (
                    Some(
                        LLVMOpcode::LLVMGetElementPtr
                        | LLVMOpcode::LLVMBitCast
                        | LLVMOpcode::LLVMAddrSpaceCast,
                    ),
                    _,
                ) => addresses.push(user),
                (Some(LLVMOpcode::LLVMICmp), _) => {}
                (Some(LLVMOpcode::LLVMStore), _) if user.operand(0) == pointer => {
                    if launches::fills_array(launches, user) && offset == Some(0) {
                        found.extend(launches_reading(launches, pointer));
                    } else {
                        found.push(escape(
                            "the address of a variable that holds device pointers is stored",
                            user,
                        ));
                    }
                }
                (Some(LLVMOpcode::LLVMLoad), Some(offset)) => found.push(Access::Load { load: user, offset }),
                (Some(LLVMOpcode::LLVMStore), Some(offset)) => {
                    found.push(Access::Store { store: user, offset })
                }
                (Some(LLVMOpcode::LLVMLoad | LLVMOpcode::LLVMStore), None) => {
                    let text = "device pointers are kept in an array, indexed at run time";
                    found.push(Access::Escape(Why::new(Code::ManyObjects, text, user)));
                }
                (Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke), _) => {
                    found.extend(access_by_call(collected, user, pointer, offset));
                }
                _ => found.push(escape(
                    "the address of a variable that holds device pointers is handed on",
                    user,
                )),
            }
        }
    }
    found
}

fn escape(text: &str, at: Value) -> Access {
    Access::Escape(Why::new(Code::AddressEscapes, text, at))
}

fn launches_reading(launches: &[Launch], storage: Value) -> impl Iterator<Item = Access> {
    launches
        .iter()
        .enumerate()
        .filter(move |(_, launch)| launch.storage.contains(&storage))
        .map(|(launch, _)| Access::Argument { launch })
}

fn access_by_call(collected: &Collected, call: Value, pointer: Value, offset: Option<i64>) -> Option<Access> {
    if is_marker(call) {
        return None;
    }
    match collected.callee(call) {
        Some(Callee::Runtime(entry)) => {
            let out = entry
                .position(Role::DevicePointerOut)
                .map(|at| argument_at(entry, at));
            let is_out = out.is_some_and(|at| call.operand(at) == pointer);
            if is_out && offset.is_some() && entry.class == Class::Alloc {
                return Some(Access::Allocation);
            }
            let text = format!(
                "the address of a variable that holds device pointers goes to {}",
                entry.name
            );
            Some(Access::Escape(Why::new(Code::UntreatedCall, text, call)))
        }
        Some(Callee::Other(function)) if function.name().starts_with("llvm.memset.") => {
            let zeroes = call.operand(1).is_null();
            (!zeroes).then(|| escape("device pointers are overwritten byte by byte", call))
        }
        Some(Callee::Other(function)) if function.name().starts_with("llvm.memcpy.") => {
            // A constant holds no device pointer.
            let initializes = call.operand(0) == pointer && address(call.operand(1)).0.is_constant();
            let text = "a structure that holds device pointers is copied";
            (!initializes).then(|| Access::Escape(Why::new(Code::PointersInMemory, text, call)))
        }
        Some(Callee::Other(function)) => {
            let text = format!(
                "the address of a variable that holds device pointers goes to {}",
                helpers::demangle(&function.name())
            );
            Some(Access::Escape(Why::new(Code::AddressEscapes, text, call)))
        }
        _ => Some(escape(
            "the address of a variable that holds device pointers is handed on",
            call,
        )),
    }
}

/// Whether bytes of this type at `at` overlap the pointer kept at `slot` without being it.
pub fn overlaps(module: LLVMModuleRef, value: Value, at: i64, slot: i64) -> bool {
    if at == slot && value.ty().is_pointer() {
        return false;
    }
    let size = helpers::type_size(module, value.ty()) as i64;
    at < slot + 8 && slot < at + size
}
