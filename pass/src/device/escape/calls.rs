//! Rules from LLVM's IR: calls of device functions, of LLVM's and NVVM's intrinsics, of CUDA's device library,
//! and of what is not known.
use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;

use super::addresses::constant;
use super::instructions::{EXCHANGES, STORES};
use super::known::{is_known, is_opaque};
use super::set::Token;
use super::slots::{RuleReader, ValueSlot, by_value};
use super::solve::{EscapeRule, ValueId};
use crate::device::helpers;
use crate::device::ir::*;

const COPIES: &str = "copies it into memory";
const BY_POINTER: &str = "passes it to a function that it calls through a pointer";

/// Intrinsics that do nothing with a value, or say one bit of it.
const NOTHING: [&str; 13] = [
    "llvm.lifetime.",
    "llvm.dbg.",
    "llvm.assume",
    "llvm.experimental.noalias.scope.decl",
    "llvm.donothing",
    "llvm.sideeffect",
    "llvm.is.constant.",
    "llvm.objectsize.",
    "llvm.nvvm.isspacep.",
    "llvm.nvvm.prefetch",
    "llvm.prefetch.",
    "llvm.nvvm.mbarrier.",
    "llvm.stackrestore",
];
/// Those that only read at the addresses that they are given.
const READS: [&str; 6] = [
    "llvm.nvvm.ldg.",
    "llvm.nvvm.ldu.",
    "llvm.nvvm.ldmatrix.",
    "llvm.nvvm.wmma.",
    "llvm.masked.load.",
    "llvm.masked.gather.",
];
/// Those whose result is the address that they are given, in another form.
const SAME: [&str; 10] = [
    "llvm.nvvm.ptr.",
    "llvm.nvvm.mapa",
    "llvm.nvvm.internal.addrspace.wrap",
    "llvm.launder.invariant.group",
    "llvm.strip.invariant.group",
    "llvm.ptr.annotation",
    "llvm.ssa.copy",
    "llvm.threadlocal.address",
    "llvm.expect.",
    "llvm.preserve.",
];
/// Those that copy from global to shared memory: nothing of what they are given is written, but what is behind.
const TO_SHARED: [&str; 4] = [
    "llvm.nvvm.cp.async.ca.shared.global.",
    "llvm.nvvm.cp.async.cg.shared.global.",
    "llvm.nvvm.cp.async.bulk.global.to.shared.",
    "llvm.nvvm.cp.async.bulk.tensor.g2s.",
];

impl RuleReader {
    /// The rules of a call.
    pub(super) fn call(&mut self, call: LLVMValueRef) {
        let count = llvm!(LLVMGetNumArgOperands(call)) as usize;
        let arguments: Vec<LLVMValueRef> = operands(call).into_iter().take(count).collect();
        let Some(callee) = callee(call) else {
            if !llvm!(LLVMIsAInlineAsm(LLVMGetCalledValue(call))).is_null() {
                return self.assembly(call, &arguments);
            }
            return self.by_pointer(call, &arguments);
        };
        let name = name(callee);
        if name.starts_with("llvm.") {
            return self.intrinsic(call, &name, &arguments);
        }
        if !is_declaration(callee) && !is_opaque(callee) {
            return self.direct(call, callee, &arguments);
        }
        match name.as_str() {
            _ if !is_known(&name) => {
                let words = format!(
                    "passes it to {}, whose code is not known",
                    helpers::demangle(&name)
                );
                self.unknown(call, &arguments, &words);
            }
            "malloc" => self.open(call),
            "free" | "vprintf" | "__assertfail" | "__nvvm_reflect" => {}
            // Mathematical functions, some of which write a second result to where they are told.
            _ => self.pure(call, &arguments, true),
        }
    }

    /// What is called gets its parameters, and its result comes back.
    fn direct(&mut self, call: LLVMValueRef, callee: LLVMValueRef, arguments: &[LLVMValueRef]) {
        let parameters = parameters(callee);
        for (at, &argument) in arguments.iter().enumerate() {
            let given = self.slot(argument);
            let Some(&parameter) = parameters.get(at) else {
                let how = self.solver.way("passes it on in a list of arguments");
                self.publish(given, how);
                continue;
            };
            match (by_value(callee, at as u32), given) {
                (Some(ty), ValueSlot::One(from)) => {
                    let to = self.by_value_place(parameter);
                    let size = Some(self.layout.size(ty) as i64);
                    self.solver.rule(EscapeRule::LoadInto { to, at: from, size });
                }
                _ => {
                    let to = self.slot(parameter);
                    self.matching(to, given);
                }
            }
        }
        if kind(llvm!(LLVMTypeOf(call))) == LLVMTypeKind::LLVMVoidTypeKind {
            return;
        }
        if let Some(result) = self.result(callee) {
            let to = self.slot(call);
            self.matching(to, result);
        }
    }

    /// One value is another; calls may disagree with what they call about types.
    fn matching(&mut self, to: ValueSlot, from: ValueSlot) {
        match (to, from) {
            (ValueSlot::One(_), ValueSlot::One(_)) | (ValueSlot::Many(_), ValueSlot::Many(_)) => {
                self.copy(to, from)
            }
            (ValueSlot::One(to), ValueSlot::Many(from)) => self.solver.rule(EscapeRule::Extract {
                to,
                from,
                at: 0,
                size: i64::from(i32::MAX),
            }),
            (ValueSlot::Many(to), ValueSlot::One(from)) => self.solver.rule(EscapeRule::Insert {
                to,
                at: 0,
                size: i64::from(i32::MAX),
                from,
            }),
        }
    }

    fn by_pointer(&mut self, call: LLVMValueRef, arguments: &[LLVMValueRef]) {
        self.unknown(call, arguments, BY_POINTER);
        if kind(llvm!(LLVMTypeOf(call))) == LLVMTypeKind::LLVMVoidTypeKind {
            return;
        }
        let to = self.slot(call);
        for function in self.taken.clone() {
            if let Some(result) = self.result(function) {
                self.matching(to, result);
            }
        }
    }

    /// Everything that is given goes where it is not followed, and anything comes back.
    pub(super) fn unknown(&mut self, call: LLVMValueRef, arguments: &[LLVMValueRef], words: &str) {
        let how = self.solver.way(words);
        for &argument in arguments {
            let slot = self.slot(argument);
            self.publish(slot, how);
        }
        self.open(call);
    }

    /// The result may be anything that is not followed.
    pub(super) fn open(&mut self, call: LLVMValueRef) {
        if kind(llvm!(LLVMTypeOf(call))) == LLVMTypeKind::LLVMVoidTypeKind {
            return;
        }
        match self.slot(call) {
            ValueSlot::One(node) => self.solver.hold(node, Token::Unknown),
            ValueSlot::Many(place) => self.solver.fill(place, None, Token::Unknown),
        }
    }

    /// The result is computed of the arguments; so is what is behind pointers among those, if `writes`.
    fn pure(&mut self, call: LLVMValueRef, arguments: &[LLVMValueRef], writes: bool) {
        let all = self.solver.node();
        for &argument in arguments {
            if !is_metadata(argument) {
                self.compute(all, argument);
            }
        }
        self.result_is(call, all);
        for &argument in arguments.iter().filter(|&&one| writes && is_pointer(one)) {
            let at = self.node(argument);
            self.store(at, ValueSlot::One(all), None, STORES);
        }
    }

    /// All of a call's result may be this.
    pub(super) fn result_is(&mut self, call: LLVMValueRef, from: ValueId) {
        let ty = llvm!(LLVMTypeOf(call));
        if kind(ty) == LLVMTypeKind::LLVMVoidTypeKind {
            return;
        }
        match self.slot(call) {
            ValueSlot::One(to) => self.solver.rule(EscapeRule::Copy { to, from }),
            ValueSlot::Many(to) => {
                let size = self.layout.size(ty) as i64;
                self.solver.rule(EscapeRule::Insert {
                    to,
                    at: 0,
                    size,
                    from,
                });
            }
        }
    }

    fn intrinsic(&mut self, call: LLVMValueRef, name: &str, arguments: &[LLVMValueRef]) {
        let is = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix));
        let is_copy = is(&["llvm.memcpy.", "llvm.memmove."]);
        if is(&NOTHING) || is(&TO_SHARED) {
            // What comes from global memory is not followed.
            for &argument in arguments.iter().filter(|&&one| is(&TO_SHARED) && is_pointer(one)) {
                self.open_behind(argument);
            }
            self.open_if_pointer(call);
        } else if is_copy {
            let (to, from) = (self.node(arguments[0]), self.node(arguments[1]));
            let (size, how) = (constant(arguments[2]), self.solver.way(COPIES));
            self.solver.rule(EscapeRule::Transfer { to, from, size, how });
        } else if name.starts_with("llvm.memset.") {
            let (at, from) = (self.node(arguments[0]), self.slot(arguments[1]));
            self.store(at, from, None, STORES);
        } else if is(&READS) && !name.contains(".store.") {
            let all = self.solver.node();
            for &argument in arguments {
                if is_pointer(argument) {
                    let at = self.node(argument);
                    self.solver.rule(EscapeRule::Load {
                        to: all,
                        at,
                        size: None,
                    });
                } else if !is_metadata(argument) {
                    self.compute(all, argument);
                }
            }
            self.result_is(call, all);
        } else if is(&SAME) {
            if let Some(&first) = arguments.first() {
                let all = self.solver.node();
                let from = self.node(first);
                self.solver.rule(EscapeRule::Copy { to: all, from });
                self.result_is(call, all);
            }
        } else if name.starts_with("llvm.ptrmask.") {
            let (to, from) = (self.node(call), self.node(arguments[0]));
            self.solver.rule(EscapeRule::Move { to, from, by: None });
        } else if is(&["llvm.nvvm.atomic.", "llvm.masked.store.", "llvm.masked.scatter."])
            || name.contains(".store.")
        {
            self.writes(call, arguments);
        } else if arguments.iter().any(|&one| is_pointer(one)) || is(&["llvm.nvvm.sust."]) {
            let words = format!("gives it to {name}, which is not followed");
            self.unknown(call, arguments, &words);
        } else {
            self.pure(call, arguments, false);
        }
    }

    /// Values are written where the addresses among the arguments point to, and what was there comes back.
    fn writes(&mut self, call: LLVMValueRef, arguments: &[LLVMValueRef]) {
        let (addresses, values): (Vec<LLVMValueRef>, Vec<LLVMValueRef>) =
            arguments.iter().partition(|&&one| is_pointer(one));
        let all = self.solver.node();
        for &value in &values {
            self.compute(all, value);
        }
        let found = self.solver.node();
        for &address in &addresses {
            let at = self.node(address);
            self.store(at, ValueSlot::One(all), None, EXCHANGES);
            self.solver.rule(EscapeRule::Load {
                to: found,
                at,
                size: None,
            });
        }
        if addresses.is_empty() {
            let how = self.solver.way(EXCHANGES);
            self.publish(ValueSlot::One(all), how);
        }
        self.result_is(call, found);
    }

    /// Something that is not followed comes into the memory behind an address.
    pub(super) fn open_behind(&mut self, address: LLVMValueRef) {
        let (at, unknown) = (self.node(address), self.solver.node());
        self.solver.hold(unknown, Token::Unknown);
        self.store(at, ValueSlot::One(unknown), None, STORES);
    }

    fn open_if_pointer(&mut self, call: LLVMValueRef) {
        if is_pointer(call) {
            self.open(call);
        }
    }
}

/// Whether a value is a pointer, or a vector of them.
fn is_pointer(value: LLVMValueRef) -> bool {
    let ty = llvm!(LLVMTypeOf(value));
    match kind(ty) {
        LLVMTypeKind::LLVMPointerTypeKind => true,
        LLVMTypeKind::LLVMVectorTypeKind => {
            kind(llvm!(LLVMGetElementType(ty))) == LLVMTypeKind::LLVMPointerTypeKind
        }
        _ => false,
    }
}

fn is_metadata(value: LLVMValueRef) -> bool {
    kind(llvm!(LLVMTypeOf(value))) == LLVMTypeKind::LLVMMetadataTypeKind
}
