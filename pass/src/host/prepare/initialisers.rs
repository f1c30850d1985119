//! Initialisers: global objects whose constructors allocate device memory, such as the layers of a network.
//!
//! Such an object's initialisation is called first in `main` instead of before it, where its ops join tasks of
//! `main`. That of other objects stays where it is: other files may use them in their own initialisation, as
//! those do that register something.
//!
//! Nothing may tell the difference. So everything that the deferred functions touch is used by nothing else that
//! may run before `main`: by no function that other files can call, no function whose address is taken, and no
//! initialisation that stays. Nor do the deferred functions call code of other files; and what they call of
//! libraries keeps its order with the rest of the file, and with other files where there are such.
use std::collections::{HashMap, HashSet};

use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use mgb_catalogue::Class;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::{self, BasicBlock, Value, helpers, is_of_library, memory};

/// The most files of a program whose initialisation is looked at.
const MAX_FILES: usize = 1024;

/// What a function registers for the end of the process, which is no call before `main`.
const AT_EXIT: &str = "__cxa_atexit";

/// Library functions whose order with other calls nothing can tell.
const ORDERLESS: [&str; 20] = [
    AT_EXIT,
    "_ZdaPv",
    "_ZdaPvm",
    "_ZdlPv",
    "_ZdlPvm",
    "_Znam",
    "_Znwm",
    "__gxx_personality_v0",
    "calloc",
    "free",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "posix_memalign",
    "sqrt",
    "sqrtf",
    "strcmp",
    "strlen",
];

/// Defers the initialisation of objects that allocates device memory, where nothing can tell.
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
    for call in deferrable(collected, main).unwrap_or_default() {
        helpers::defer_initialiser(collected.module, call, main, before);
    }
}

/// The calls of initialisers that can be deferred, in their order; none if one that allocates cannot be.
fn deferrable(collected: &Collected, main: Value) -> Option<Vec<Value>> {
    let calls: Vec<(Value, InitialiserEffects)> = helpers::initialisers(collected.module, MAX_FILES)
        .into_iter()
        .flat_map(|file| file.instructions().collect::<Vec<_>>())
        .filter_map(|call| match collected.callee(call) {
            Some(Callee::Other(function))
                if !function.is_declaration()
                    && call.is(LLVMOpcode::LLVMCall)
                    && call.arguments().next().is_none() =>
            {
                Some((call, InitialiserEffects::of(collected, function)))
            }
            _ => None,
        })
        .collect();
    let mut deferred: Vec<bool> = calls.iter().map(|(_, part)| part.allocates).collect();
    let first = deferred.iter().position(|&is_deferred| is_deferred)?;
    for (at, (_, part)) in calls.iter().enumerate().skip(first) {
        deferred[at] |= part.has_order;
    }
    let touched = loop {
        let chosen = calls
            .iter()
            .zip(&deferred)
            .filter(|(_, is_deferred)| **is_deferred);
        let touched: HashSet<Value> = chosen.flat_map(|((_, part), _)| &part.touched).copied().collect();
        // The initialisation of others that use the same variables goes along.
        let before = deferred.clone();
        for (at, (_, part)) in calls.iter().enumerate() {
            deferred[at] |= !part.touched.is_disjoint(&touched);
        }
        if deferred == before {
            break touched;
        }
    };
    let chosen = calls
        .iter()
        .zip(&deferred)
        .filter(|(_, is_deferred)| **is_deferred);
    let chosen: Vec<&(Value, InitialiserEffects)> = chosen.map(|(one, _)| one).collect();
    let is_alone = ir::is_alone(collected.module);
    let is_known = |part: &InitialiserEffects| part.is_known && (is_alone || !part.has_order);
    let moved: HashSet<Value> = chosen.iter().map(|(call, _)| *call).collect();
    let early = early(collected, main, &moved);
    let can_be = chosen.iter().all(|(_, part)| is_known(part))
        && touched
            .into_iter()
            .all(|global| is_used_late_only(global, &early));
    can_be.then(|| chosen.iter().map(|(call, _)| *call).collect())
}

/// What an initialisation does, with all that it calls.
#[derive(Default)]
struct InitialiserEffects {
    /// It allocates device memory.
    allocates: bool,
    /// All that it calls is known: the CUDA runtime, kernels, libraries, and functions of this module.
    is_known: bool,
    /// It calls library functions whose order with other calls can be told, other than on ways that end the
    /// process.
    has_order: bool,
    /// The variables that it uses.
    touched: HashSet<Value>,
}

impl InitialiserEffects {
    fn of(collected: &Collected, function: Value) -> InitialiserEffects {
        let mut part = InitialiserEffects {
            is_known: true,
            ..InitialiserEffects::default()
        };
        let mut seen = HashSet::from([function]);
        let mut queue = vec![function];
        while let Some(one) = queue.pop() {
            for instruction in one.instructions() {
                part.take(collected, instruction);
                if let Some(Callee::Other(callee)) = collected.callee(instruction)
                    && !callee.is_declaration()
                    && seen.insert(callee)
                {
                    queue.push(callee);
                }
            }
        }
        part
    }

    fn take(&mut self, collected: &Collected, instruction: Value) {
        let callee = collected.callee(instruction);
        let called = instruction.callee();
        match callee {
            Some(Callee::Runtime(entry)) => self.allocates |= entry.class == Class::Alloc,
            Some(Callee::Stub(_)) | None => {}
            Some(Callee::Unknown) => self.is_known = false,
            Some(Callee::Other(callee)) if callee.is_declaration() => {
                let name = callee.name();
                self.is_known &= is_of_library(callee);
                self.has_order |= !name.starts_with("llvm.")
                    && !name.starts_with("__cuda")
                    && !ORDERLESS.contains(&name.as_str())
                    && returns(instruction.block());
            }
            Some(Callee::Other(_)) => {}
        }
        let is_registered = called.is_some_and(|called| called.name() == AT_EXIT);
        for global in named(instruction) {
            if !global.is_variable() {
                // A function that is handed on, also by another name, may be called by anybody.
                self.is_known &= Some(global) == called || is_registered || collected.is_stub(global);
            } else if global.is_declaration() {
                self.is_known &= is_of_library(global);
            } else if !global.is_constant_variable() {
                self.touched.insert(global);
            }
        }
    }
}

/// The functions and variables that an instruction names, also within constants.
fn named(instruction: Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut queue: Vec<Value> = instruction.operands().collect();
    while let Some(one) = queue.pop() {
        if one.is_function() || one.is_global() {
            found.push(one);
        } else if !one.is_instruction() && one.is_constant() {
            queue.extend(one.operands());
        }
    }
    found
}

/// Whether the function may return from this block on.
fn returns(from: BasicBlock) -> bool {
    let mut seen = HashSet::from([from]);
    let mut queue = vec![from];
    while let Some(block) = queue.pop() {
        let end = block.terminator().and_then(Value::opcode);
        if end == Some(LLVMOpcode::LLVMRet) {
            return true;
        }
        queue.extend(block.successors().into_iter().filter(|next| seen.insert(*next)));
    }
    false
}

/// The functions that may run before `main` once these calls of initialisers are deferred: those that other files
/// can call, those whose address is taken, initialisers, and all that they call.
fn early(collected: &Collected, main: Value, deferred: &HashSet<Value>) -> HashSet<Value> {
    let defined = || ir::functions(collected.module).filter(|one| !one.is_declaration());
    let mut calls: HashMap<Value, Vec<Value>> = HashMap::new();
    let mut early: HashSet<Value> = HashSet::new();
    for function in defined() {
        let is_own = matches!(
            function.linkage(),
            LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage
        );
        let mut is_root = !is_own && function != main;
        for user in function.users() {
            let called = user.is_instruction().then(|| user.callee()).flatten();
            if called == Some(function) && user.arguments().all(|argument| argument != function) {
                if !deferred.contains(&user) {
                    calls.entry(user.block().function()).or_default().push(function);
                }
            } else {
                is_root |= called.is_none_or(|called| called.name() != AT_EXIT);
            }
        }
        if is_root {
            early.insert(function);
        }
    }
    let mut queue: Vec<Value> = early.iter().copied().collect();
    while let Some(one) = queue.pop() {
        for &callee in calls.get(&one).into_iter().flatten() {
            if early.insert(callee) {
                queue.push(callee);
            }
        }
    }
    early
}

/// Whether a variable is this module's own, and no function that may run before `main` uses it.
fn is_used_late_only(global: Value, early: &HashSet<Value>) -> bool {
    let is_own = matches!(
        global.linkage(),
        LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage
    );
    is_own
        && memory::users_of_global(global).is_some_and(|users| {
            users
                .into_iter()
                .all(|user| !early.contains(&user.block().function()))
        })
}
