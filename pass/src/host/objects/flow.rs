//! Flow: where a device pointer comes from and goes to, one instruction at a time.
use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::Role;
use mgb_catalogue::report::ReasonCode;

use crate::assume::Proof;
use crate::host::collect::{Callee, arguments_with};
use crate::host::ir::Value;
use crate::host::ir::helpers;
use crate::host::objects::classes::PointerStore;
use crate::host::objects::integers;
use crate::host::objects::ops;
use crate::host::objects::search::ObjectSearch;
use crate::host::objects::summaries;
use crate::host::reason::Why;

impl ObjectSearch<'_> {
    /// Follows a value to its sources and its uses.
    pub(super) fn follow_value(&mut self, value: Value) {
        if !self.scanned.insert(PointerStore::Value(value)) {
            return;
        }
        self.follow_source(value);
        // Constants and globals are used all over the module.
        if !value.is_constant() {
            for user in value.users() {
                self.follow_use(value, user);
            }
        }
    }

    /// Where a pointer comes from.
    fn follow_source(&mut self, value: Value) {
        let node = PointerStore::Value(value);
        match value.opcode() {
            Some(LLVMOpcode::LLVMLoad) => match self.kept_at(value.operand(0)) {
                Ok(slot) => self.same(node, slot),
                Err(base) => {
                    let text = format!("the pointer is read from {}", self.describe(base));
                    self.obstacle(node, Why::new(ReasonCode::AllocatedElsewhere, text, value));
                }
            },
            Some(
                LLVMOpcode::LLVMGetElementPtr
                | LLVMOpcode::LLVMBitCast
                | LLVMOpcode::LLVMAddrSpaceCast
                | LLVMOpcode::LLVMFreeze,
            ) => self.may_be(node, value.operand(0)),
            Some(LLVMOpcode::LLVMPHI) => value.incoming().for_each(|one| self.may_be(node, one)),
            Some(LLVMOpcode::LLVMSelect) => {
                self.may_be(node, value.operand(1));
                self.may_be(node, value.operand(2));
            }
            _ => {
                let text = format!("the pointer is {}", self.describe(value));
                let code = if value.is_instruction() && !value.is_call() {
                    ReasonCode::UnknownObject
                } else {
                    ReasonCode::AllocatedElsewhere
                };
                self.obstacle(node, Why::new(code, text, value));
            }
        }
    }

    /// Where a pointer goes to.
    fn follow_use(&mut self, value: Value, user: Value) {
        let node = PointerStore::Value(value);
        let escapes = |search: &mut Self, text: String| {
            search.obstacle(node, Why::new(ReasonCode::AddressEscapes, text, user));
        };
        match user.opcode() {
            Some(
                LLVMOpcode::LLVMGetElementPtr
                | LLVMOpcode::LLVMBitCast
                | LLVMOpcode::LLVMAddrSpaceCast
                | LLVMOpcode::LLVMFreeze
                | LLVMOpcode::LLVMPHI
                | LLVMOpcode::LLVMSelect,
            ) => self.same(node, PointerStore::Value(user)),
            Some(LLVMOpcode::LLVMICmp) => {}
            Some(LLVMOpcode::LLVMStore) if user.operand(0) == value => match self.kept_at(user.operand(1)) {
                Ok(slot) => self.same(node, slot),
                Err(base) => {
                    let text = format!("the pointer is stored in {}", self.describe(base));
                    escapes(self, text);
                }
            },
            Some(LLVMOpcode::LLVMRet) => escapes(self, "the pointer is returned".to_owned()),
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => self.follow_call(value, user),
            Some(LLVMOpcode::LLVMPtrToInt) => match integers::differences(user) {
                Some(differences) => self.differs(differences),
                None if Proof::Numbers.is_assumed() => {}
                None => escapes(self, "the pointer is converted to an integer".to_owned()),
            },
            _ => escapes(
                self,
                "the pointer is used in a way that is not followed".to_owned(),
            ),
        }
    }

    fn follow_call(&mut self, value: Value, call: Value) {
        let node = PointerStore::Value(value);
        match self.collected.callee(call) {
            Some(Callee::Stub(_)) => {}
            Some(Callee::Runtime(entry)) => {
                let named = arguments_with(call, entry, Role::DevicePointer).contains(&value);
                if !ops::is_understood(entry) || !named {
                    let text = format!("the pointer goes to {}, which is not followed", entry.name);
                    self.obstacle(node, Why::new(ReasonCode::UntreatedCall, text, call));
                }
            }
            Some(Callee::Other(_)) if call.is_marker() || summaries::is_forgotten(call, value) => {}
            Some(Callee::Other(function)) => {
                let text = format!("the pointer goes to {}", helpers::demangle(&function.name()));
                self.obstacle(node, Why::new(ReasonCode::AddressEscapes, text, call));
            }
            _ => self.obstacle(
                node,
                Why::new(
                    ReasonCode::AddressEscapes,
                    "the pointer goes to an unknown function",
                    call,
                ),
            ),
        }
    }

    /// A few words for where a pointer comes from or goes to.
    pub(super) fn describe(&self, base: Value) -> String {
        if base.is_argument() {
            let name = base.name();
            if name.is_empty() {
                "an argument of this function".to_owned()
            } else {
                format!("the argument {name}")
            }
        } else if base.is_global() {
            format!("the global {}", helpers::demangle(&base.name()))
        } else if base.is_call() {
            let callee = base.callee().map(|callee| helpers::demangle(&callee.name()));
            callee.map_or("the result of a call".to_owned(), |name| {
                format!("the result of {name}")
            })
        } else if base.is(LLVMOpcode::LLVMAlloca) {
            "host memory of this function".to_owned()
        } else {
            "memory that is not followed".to_owned()
        }
    }
}
