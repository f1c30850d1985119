//! Helpers: functions that work on device memory that they are given, such as one that launches a kernel in a loop and
//! takes the time. Inlined where they are called, their ops join the tasks of the memory, which is allocated there.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::LLVMGetModuleFlag;
use mgb_catalogue::{Class, Treatment};

use super::collect::{Callee, Collected};
use super::ir::{self, Value};

/// The most instructions of a helper, as clang writes them without optimisation: a few launches each.
const LIMIT: usize = 600;

/// The helpers of a module. `wrappers` are those functions that are inlined anyway.
pub fn find(collected: &Collected, wrappers: &HashSet<Value>) -> HashSet<Value> {
    let mut found: HashSet<Value> = HashSet::new();
    let candidates: Vec<Value> = ir::functions(collected.module)
        .filter(|&function| !collected.is_stub(function) && !wrappers.contains(&function))
        .filter(|&function| is_fixed(collected, function) && is_given_pointers(function))
        .filter(|function| function.instructions().take(LIMIT + 1).count() <= LIMIT)
        .collect();
    let calls = Calls::new(collected);
    // Helpers of helpers, until there are no more.
    loop {
        let before = found.len();
        for &function in &candidates {
            let works = calls.of(function).any(|callee| found.contains(&callee)) || calls.touches(function);
            if works && !calls.allocates_or_anchors(function) && !calls.reaches_itself(function) {
                found.insert(function);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Whether the body here is the one that a call runs, whatever it is linked with.
fn is_fixed(collected: &Collected, function: Value) -> bool {
    let name = "SemanticInterposition";
    let replaceable = || {
        // SAFETY: a live module, and the name's address and length.
        !unsafe { LLVMGetModuleFlag(collected.module, name.as_ptr().cast(), name.len()) }.is_null()
    };
    !function.is_declaration()
        && match function.linkage() {
            LLVMLinkage::LLVMInternalLinkage
            | LLVMLinkage::LLVMPrivateLinkage
            | LLVMLinkage::LLVMLinkOnceODRLinkage
            | LLVMLinkage::LLVMWeakODRLinkage => true,
            LLVMLinkage::LLVMExternalLinkage => !replaceable(),
            _ => false,
        }
}

fn is_given_pointers(function: Value) -> bool {
    function.parameters().any(|parameter| parameter.ty().is_pointer())
}

/// Who calls whom in the module, and what they do to the GPU themselves.
struct Calls<'a> {
    collected: &'a Collected,
    callees: HashMap<Value, Vec<Value>>,
}

impl<'a> Calls<'a> {
    fn new(collected: &'a Collected) -> Self {
        let callees = ir::functions(collected.module)
            .filter(|function| !function.is_declaration())
            .map(|function| {
                let called = function
                    .instructions()
                    .filter_map(|one| match collected.callee(one) {
                        Some(Callee::Other(callee)) if !callee.is_declaration() => Some(callee),
                        _ => None,
                    });
                (function, called.collect())
            })
            .collect();
        Self { collected, callees }
    }

    fn of(&self, function: Value) -> impl Iterator<Item = Value> {
        self.callees.get(&function).into_iter().flatten().copied()
    }

    /// Every function that a call of this one may run, itself only if it can be called again meanwhile.
    fn reached(&self, function: Value) -> HashSet<Value> {
        let mut reached = HashSet::new();
        let mut next: Vec<Value> = self.of(function).collect();
        while let Some(one) = next.pop() {
            if reached.insert(one) {
                next.extend(self.of(one));
            }
        }
        reached
    }

    fn reaches_itself(&self, function: Value) -> bool {
        self.reached(function).contains(&function)
    }

    /// Whether it launches, copies or sets.
    fn touches(&self, function: Value) -> bool {
        function
            .instructions()
            .any(|one| match self.collected.callee(one) {
                Some(Callee::Stub(_)) => true,
                Some(Callee::Runtime(entry)) => {
                    matches!(entry.class, Class::Copy | Class::Set | Class::Launch)
                }
                _ => false,
            })
    }

    /// Whether it, or what it calls, has objects of its own or ties a function to one GPU: its tasks are then better
    /// looked at alone.
    fn allocates_or_anchors(&self, function: Value) -> bool {
        let does = |function: Value| {
            function
                .instructions()
                .filter_map(|one| self.collected.entry(one))
                .any(|entry| entry.class == Class::Alloc || entry.treatment == Treatment::Anchors)
        };
        does(function) || self.reached(function).into_iter().any(does)
    }
}
