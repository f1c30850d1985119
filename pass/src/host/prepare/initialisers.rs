//! Initialisers: global objects whose constructors allocate device memory, such as the layers of a network.
//!
//! Their file's initialisation is called first in `main` instead of before it, where its ops join tasks of
//! `main`. C++ leaves that to the implementation, as long as it comes before anything of the file is used
//! other than by initialisation (basic.start.dynamic in the standard): `main` is the first to do so where it
//! is in the same module.
use std::collections::HashSet;

use inkwell::llvm_sys::LLVMOpcode;
use mgb_catalogue::Class;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::{self, Value, helpers};

/// The most files of a program whose initialisation is looked at.
const MOST: usize = 1024;

/// Defers the initialisation of files that allocates device memory.
pub fn defer(collected: &Collected) {
    let mut functions = ir::functions(collected.module);
    let is_main = |one: &Value| one.name() == "main" && !one.is_declaration() && !one.has_uses();
    let Some(main) = functions.find(is_main) else {
        return;
    };
    let Some(first) = main.blocks().next() else { return };
    let is_variable = |one: &Value| one.is(LLVMOpcode::LLVMAlloca);
    let Some(before) = first.instructions().find(|one| !is_variable(one)) else {
        return;
    };
    for initialiser in helpers::initialisers(collected.module, MOST) {
        if allocates(collected, initialiser) {
            helpers::defer_initialiser(collected.module, initialiser, main, before);
        }
    }
}

/// Whether a function, or one that it calls, allocates device memory.
fn allocates(collected: &Collected, function: Value) -> bool {
    let mut seen = HashSet::from([function]);
    let mut queue = vec![function];
    while let Some(one) = queue.pop() {
        for call in one.instructions() {
            match collected.callee(call) {
                Some(Callee::Runtime(entry)) if entry.class == Class::Alloc => return true,
                Some(Callee::Other(callee)) if seen.insert(callee) => queue.push(callee),
                _ => {}
            }
        }
    }
    false
}
