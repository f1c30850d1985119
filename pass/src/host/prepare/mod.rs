//! Prepare: brings the functions that hold GPU ops into the form the analyses read.
//!
//! The CUDA headers wrap the runtime in templates (`cudaMalloc<T>`), programs wrap it in guards and small
//! helpers, and at -O0 every variable lives in memory. Small wrappers, and the larger helpers that `inlining`
//! finds, are inlined by LLVM's inliner, and variables are promoted by LLVM's passes, only in functions that
//! hold GPU ops. A module without CUDA is left bit for bit as it is.
mod given;
mod initialisers;
mod inlining;
mod memory_flow;
mod shapes;

use std::collections::HashSet;
use std::ffi::CStr;

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::error::LLVMDisposeErrorMessage;
use inkwell::llvm_sys::transforms::pass_builder::*;
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};

use mgb_catalogue::Class;

use crate::host::collect::{Callee, Collected};
use crate::host::ir::cfg::{Cfg, Point};
use crate::host::ir::helpers;
use crate::host::ir::names::ValueNames;
use crate::host::ir::{self, Value};
use shapes::{inline_where, is_small};

/// Promotes variables and folds what that leaves, so that values can be followed; and removes the common exit
/// blocks through which clang leaves scopes with destructors early.
const PASSES: &CStr = c"sroa,early-cse,simplifycfg,jump-threading,adce,simplifycfg,loop-simplify";
/// The most instructions of a function into which helpers are inlined.
const GROWN_LIMIT: usize = 8_000;
/// The most rounds of promotion for one function: each may reveal more calls to inline.
const ROUNDS: usize = 4;
/// The same for a function that is not large: `std::copy` alone reveals one eight times in a row.
const MORE_ROUNDS: usize = 16;
/// The most instructions of such a function.
const MORE_LIMIT: usize = 4_000;
/// `dim3`'s constructors, of which a launch's grid and block are made.
const DIM3: &str = "_ZN4dim3C";

/// A function that holds GPU ops.
pub struct GpuFunction {
    /// The function that holds them.
    pub function: Value,
    /// Whether every call of it in this module was inlined: only callers in other files run it.
    pub for_others: bool,
}

/// Prepares the module. Returns the functions that hold GPU ops, in the order they stand.
pub fn prepare(collected: &Collected, names: &mut ValueNames) -> Vec<GpuFunction> {
    helpers::resolve_aliases(collected.module);
    initialisers::defer(collected);
    let wrappers = find_wrappers(collected);
    let helpers = inlining::find(collected, &wrappers);
    let is_inlined = |callee: Value| wrappers.contains(&callee) || helpers.contains(&callee);
    let inlined = wrappers.iter().chain(&helpers).copied();
    let called: HashSet<Value> = inlined.filter(|one| one.has_uses()).collect();
    let holders: Vec<Value> = ir::functions(collected.module)
        .filter(|&function| !function.is_declaration() && !collected.is_stub(function))
        .filter(|&function| {
            function
                .instructions()
                .any(|one| collected.is_op(one) || one.callee().is_some_and(is_inlined))
        })
        .collect();
    for &function in &holders {
        inline_wrappers(function, &wrappers);
    }
    for &function in &holders {
        inline_helpers(function, is_inlined);
    }
    let was_inlined = |function| wrappers.contains(&function) || called.contains(&function);
    let holders = drop_unused(holders, was_inlined);
    let choosing = collected.choosing_device();
    for &function in &holders {
        for round in 0..MORE_ROUNDS {
            if round >= ROUNDS && function.instructions().take(MORE_LIMIT).count() == MORE_LIMIT {
                break;
            }
            names.mark(function);
            promote(function);
            let given = given::inline(collected, function)
                | inline_computing(collected, function)
                | inline_choosing(collected, &choosing, function);
            // Calls of a function that a helper was given are known by now.
            if !(given | inline_helpers(function, is_inlined)) {
                break;
            }
        }
    }
    let holders = drop_unused(holders, was_inlined);
    let for_others = |function: &Value| called.contains(function) && !function.has_uses();
    holders
        .into_iter()
        .map(|function| GpuFunction {
            function,
            for_others: for_others(&function),
        })
        .collect()
}

/// Functions that may be inlined because they stand only for the ops they hold: small, without
/// loops, and with a body that is the one a call runs.
fn find_wrappers(collected: &Collected) -> HashSet<Value> {
    let small: Vec<Value> = ir::functions(collected.module)
        .filter(|&function| !collected.is_stub(function) && is_small(collected, function))
        .collect();
    let mut wrappers: HashSet<Value> = small
        .iter()
        .copied()
        .filter(|&function| collected.holds_ops(function))
        .collect();
    // Wrappers of wrappers, until there are no more.
    loop {
        let calls_one = |function: &Value| {
            function
                .instructions()
                .any(|one| one.callee().is_some_and(|callee| wrappers.contains(&callee)))
        };
        let more: Vec<Value> = small
            .iter()
            .copied()
            .filter(|one| !wrappers.contains(one) && calls_one(one))
            .collect();
        if more.is_empty() {
            break;
        }
        wrappers.extend(more);
    }
    wrappers.extend(
        small
            .into_iter()
            .filter(|function| function.name().starts_with(DIM3)),
    );
    wrappers
}

/// Inlines calls of wrappers, and those that come in with them.
fn inline_wrappers(function: Value, wrappers: &HashSet<Value>) {
    inline_where(function, |call| {
        call.callee().is_some_and(|callee| wrappers.contains(&callee))
    });
}

/// Inlines calls of helpers, until the function is large. True when there was one.
fn inline_helpers(function: Value, is_helper: impl Fn(Value) -> bool) -> bool {
    inline_where(function, |call| {
        let grown = || function.instructions().take(GROWN_LIMIT).count() == GROWN_LIMIT;
        call.callee().is_some_and(&is_helper) && !grown()
    })
}

/// Inlines small functions that compute how large objects and launches are, such as `std::vector::size`,
/// where they are called after the GPU was first needed, or on some of the ways to it only: what they read
/// may be known before. True when there was one.
fn inline_computing(collected: &Collected, function: Value) -> bool {
    let mut seen = HashSet::new();
    let mut queue: Vec<Value> = function
        .instructions()
        .filter_map(|call| Some((call, collected.entry(call)?)))
        .filter(|(_, entry)| matches!(entry.class, Class::Alloc | Class::Configure | Class::Launch))
        .flat_map(|(call, _)| call.arguments().collect::<Vec<_>>())
        .filter(|argument| !argument.ty().is_pointer())
        .collect();
    let mut computing = HashSet::new();
    while let Some(value) = queue.pop() {
        if !value.is_instruction() || !seen.insert(value) {
            continue;
        }
        if value.is_call() {
            computing.insert(value);
            continue;
        }
        queue.extend(value.operands());
        // A variable that was not promoted: what is stored in it, and who is given its address to read it.
        if value.is(LLVMOpcode::LLVMAlloca) {
            for user in value.users() {
                match user.opcode() {
                    Some(LLVMOpcode::LLVMStore) => queue.push(user.operand(0)),
                    Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => queue.push(user),
                    _ => {}
                }
            }
        }
    }
    if computing.is_empty() {
        return false;
    }
    let cfg = Cfg::new(function);
    let touching: Vec<Point> = function
        .instructions()
        .filter(|&one| match collected.callee(one) {
            Some(Callee::Stub(_)) => true,
            Some(Callee::Runtime(entry)) => matches!(entry.class, Class::Copy | Class::Set | Class::Launch),
            _ => false,
        })
        .map(|one| cfg.point(one))
        .collect();
    computing.retain(|&call| {
        let at = cfg.point(call);
        touching
            .iter()
            .any(|&op| cfg.reaches(op, at) || !cfg.dominates(at, op))
    });
    inline_where(function, |call| {
        let is_small = |callee| is_small(collected, callee);
        computing.contains(&call) && !collected.is_op(call) && call.callee().is_some_and(is_small)
    })
}

/// Inlines small functions that choose a device, such as a guard that sets one and later the one before:
/// which device is current is then seen. True when there was one.
fn inline_choosing(collected: &Collected, choosing: &HashSet<Value>, function: Value) -> bool {
    inline_where(function, |call| {
        let is_meant = |callee| choosing.contains(&callee) && is_small(collected, callee);
        call.callee().is_some_and(is_meant)
    })
}

/// Deletes what was inlined and what nothing calls any more; returns the other holders.
fn drop_unused(mut holders: Vec<Value>, was_inlined: impl Fn(Value) -> bool) -> Vec<Value> {
    let discardable = |function: &Value| {
        let kept = matches!(
            function.linkage(),
            LLVMLinkage::LLVMWeakODRLinkage | LLVMLinkage::LLVMExternalLinkage
        );
        was_inlined(*function) && !function.has_uses() && !kept
    };
    loop {
        let Some(at) = holders.iter().position(discardable) else {
            return holders;
        };
        let function = holders.remove(at);
        // SAFETY: nothing uses it, and the list held the only handle kept of it.
        unsafe { LLVMDeleteFunction(function.raw()) };
    }
}

// LLVM 19 lacks it; cpp/older.cpp has it then.
#[cfg(feature = "llvm19")]
unsafe extern "C" {
    fn LLVMRunPassesOnFunction(
        function: inkwell::llvm_sys::prelude::LLVMValueRef,
        passes: *const std::ffi::c_char,
        machine: inkwell::llvm_sys::target_machine::LLVMTargetMachineRef,
        options: LLVMPassBuilderOptionsRef,
    ) -> inkwell::llvm_sys::error::LLVMErrorRef;
}

/// Lifts `optnone` and runs the passes over one function.
fn promote(function: Value) {
    let kind = |name: &str| {
        // SAFETY: the name's address and length.
        unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
    };
    // SAFETY: a live function; removing an attribute that is not there is nothing.
    unsafe {
        LLVMRemoveEnumAttributeAtIndex(
            function.raw(),
            inkwell::llvm_sys::LLVMAttributeFunctionIndex,
            kind("optnone"),
        )
    };
    // SAFETY: a live function with a body and a pipeline of function passes; the options and the message of
    // an error are disposed of once, here.
    unsafe {
        let options = LLVMCreatePassBuilderOptions();
        let error = LLVMRunPassesOnFunction(function.raw(), PASSES.as_ptr(), std::ptr::null_mut(), options);
        LLVMDisposePassBuilderOptions(options);
        if !error.is_null() {
            let message = inkwell::llvm_sys::error::LLVMGetErrorMessage(error);
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeErrorMessage(message);
            panic!("LLVM refused the pipeline {}: {text}", PASSES.to_string_lossy());
        }
    }
}
