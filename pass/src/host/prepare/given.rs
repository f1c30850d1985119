//! Given pointers: small functions that a device pointer goes to or comes from, or that are given the address
//! of a variable with one in it: constructors of structures of buffers, their methods, functions that wrap a
//! pointer or take it out again. Inlined, they show where it comes from.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::{Class, Role};

use crate::host::collect::{Callee, Collected, arguments_with};
use crate::host::ir::Value;
use crate::host::ir::cfg::Cfg;
use crate::host::ir::helpers;
use crate::host::ir::memory;
use crate::host::prepare::shapes::{forwards, inline_where, is_short};

/// `cudaMemcpyHostToDevice`.
const HOST_TO_DEVICE: u64 = 1;
/// `cudaMemcpyDeviceToHost`.
const DEVICE_TO_HOST: u64 = 2;

/// The most instructions of a function into which more is inlined: promotion makes it smaller again.
const GROWN_LIMIT: usize = 8_000;
/// How often what was inlined is looked through for more: a wrapper wraps another, without promotion in
/// between.
const DEPTH: usize = 8;

/// Inlines such functions, and those that only return a pointer. True when there was one.
pub fn inline(collected: &Collected, function: Value) -> bool {
    (0..DEPTH)
        .take_while(|_| inline_once(collected, function))
        .count()
        > 0
}

fn inline_once(collected: &Collected, function: Value) -> bool {
    if function.instructions().take(GROWN_LIMIT).count() == GROWN_LIMIT {
        return false;
    }
    let carriers = Carriers::of(collected, function);
    inline_where(function, |call| {
        let is_meant = |callee| {
            collected.is_fixed(callee) && is_short(callee) && (carriers.has(call) || forwards(callee))
        };
        call.callee().is_some_and(is_meant) && !collected.is_op(call)
    })
}

/// The values of a function that are device pointers, or variables with one in them, as far as that shows
/// before its calls are inlined.
struct Carriers {
    found: HashSet<Value>,
    queue: Vec<Value>,
}

impl Carriers {
    fn of(collected: &Collected, function: Value) -> Self {
        let mut this = Self {
            found: HashSet::new(),
            queue: Vec::new(),
        };
        let cfg = Cfg::new(function);
        for call in function.instructions().filter(|&one| collected.is_op(one)) {
            for pointer in pointers_of(collected, call) {
                this.add(&cfg, pointer);
            }
        }
        while let Some(one) = this.queue.pop() {
            this.follow(&cfg, one);
        }
        this
    }

    /// Whether a call is given one of them, or gives one.
    fn has(&self, call: Value) -> bool {
        let mut given = call.arguments().filter(|argument| argument.ty().is_pointer());
        self.found.contains(&call) || given.any(|argument| self.found.contains(&memory::address(argument).0))
    }

    /// Adds what a pointer is counted from.
    fn add(&mut self, cfg: &Cfg, pointer: Value) {
        let base = memory::address(pointer).0;
        let is_followed = base.is_instruction() || (base.is_variable() && memory::is_own(cfg, base));
        if is_followed && self.found.insert(base) {
            self.queue.push(base);
        }
    }

    fn follow(&mut self, cfg: &Cfg, base: Value) {
        match base.opcode() {
            Some(LLVMOpcode::LLVMLoad) => self.add_variable(cfg, base.operand(0)),
            Some(LLVMOpcode::LLVMPHI) => base.incoming().for_each(|one| self.add(cfg, one)),
            Some(LLVMOpcode::LLVMSelect) => [1, 2].into_iter().for_each(|at| self.add(cfg, base.operand(at))),
            _ => {}
        }
        let is_variable = memory::is_own(cfg, base);
        let mut addresses = vec![base];
        while let Some(address) = addresses.pop() {
            for user in address.users() {
                match user.opcode() {
                    None if !user.is_global() => addresses.push(user),
                    Some(LLVMOpcode::LLVMGetElementPtr) => addresses.push(user),
                    Some(LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMSelect) => self.add(cfg, user),
                    Some(LLVMOpcode::LLVMLoad) if is_variable && user.ty().is_pointer() => {
                        self.add(cfg, user)
                    }
                    // The variable that a pointer is kept in, or what is kept in this one.
                    Some(LLVMOpcode::LLVMStore) if user.operand(0) == address => {
                        self.add_variable(cfg, user.operand(1));
                    }
                    Some(LLVMOpcode::LLVMStore) if is_variable && user.operand(0).ty().is_pointer() => {
                        self.add(cfg, user.operand(0));
                    }
                    // Structures that are copied from one another.
                    Some(LLVMOpcode::LLVMCall) if user.callee().is_some_and(memory::copies_host_memory) => {
                        [0, 1]
                            .into_iter()
                            .for_each(|at| self.add_variable(cfg, user.operand(at)));
                    }
                    _ => {}
                }
            }
        }
    }

    fn add_variable(&mut self, cfg: &Cfg, address: Value) {
        if memory::is_own(cfg, memory::address(address).0) {
            self.add(cfg, address);
        }
    }
}

/// The pointers that an op is given, those into host memory left out where its direction says so; variables
/// that it fills; and structures that a kernel gets whole.
fn pointers_of(collected: &Collected, call: Value) -> Vec<Value> {
    match collected.callee(call) {
        Some(Callee::Stub(_)) => {
            let is_given = |at: u32, argument: Value| {
                argument.ty().is_pointer()
                    && helpers::byval_type(call, at).is_none_or(|structure| structure.holds_pointer())
            };
            let arguments = call.arguments().enumerate();
            arguments
                .filter(|&(at, one)| is_given(at as u32, one))
                .map(|(_, one)| one)
                .collect()
        }
        Some(Callee::Runtime(entry)) if entry.class == Class::Alloc => {
            arguments_with(call, entry, Role::DevicePointerOut)
        }
        Some(Callee::Runtime(entry)) => {
            let direction = arguments_with(call, entry, Role::CopyKind);
            let pointers = arguments_with(call, entry, Role::DevicePointer);
            match (
                direction.first().and_then(|kind| kind.constant()),
                pointers.as_slice(),
            ) {
                (Some(HOST_TO_DEVICE), &[to, _]) => vec![to],
                (Some(DEVICE_TO_HOST), &[_, from]) => vec![from],
                _ => pointers,
            }
        }
        _ => Vec::new(),
    }
}
