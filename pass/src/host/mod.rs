//! The host module's half of the pass, a module per phase:
//!
//! `collect` finds the runtime's functions and the stubs of kernels; `prepare` inlines small
//! wrappers, and the helpers that `helping` finds, and promotes variables where there are GPU ops;
//! then, for each function that holds any, `plan` works out the tasks: `launches`, the `objects`
//! behind their pointers, `tasks` merged where they share objects, their `needs`, the `placement`
//! of their begins and `ends`.
//! Last, `rewrite` inserts the probes and renames the runtime's functions to lazyrt's.
//!
//! Nothing is inserted before all is planned. A function whose analysis fails is left lazy, with a
//! warning: renaming its calls is always right.
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use inkwell::llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyFunction};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use mgb_catalogue::report;

mod cfg;
mod collect;
mod emit;
mod ends;
mod expr;
mod formula;
mod helpers;
mod helping;
mod hints;
mod ir;
mod launches;
mod lifetimes;
mod names;
mod needs;
mod objects;
mod open;
mod ops;
mod place;
mod placement;
mod plan;
mod prepare;
mod rewrite;
mod slots;
mod tasks;
mod variables;

use collect::Collected;
use ir::Value;
use names::Names;
use open::Open;
use plan::Task;
use variables::Variables;

/// The named metadata that a processed module carries.
const MARK: &std::ffi::CStr = c"mgb.processed";

/// Rewrites a host module; true when it was changed.
pub fn run(module: LLVMModuleRef) -> bool {
    catch_unwind(AssertUnwindSafe(|| process(module))).unwrap_or_else(|panic| {
        // What was inserted so far may be half of something: such a module must not be used.
        let text = format!("mgb: failed to rewrite the module: {}", message(&*panic));
        helpers::diagnose(module, true, &text);
        true
    })
}

fn process(module: LLVMModuleRef) -> bool {
    // SAFETY: a live module and a C string.
    if !unsafe { LLVMGetNamedMetadata(module, MARK.as_ptr(), MARK.count_bytes()) }.is_null() {
        return false;
    }
    let collected = Collected::new(module);
    let open = open::look(&collected);
    if collected.is_empty() && open.reasons.is_empty() {
        return false;
    }
    let source = source_name(module);
    // SAFETY: a live module.
    let mut names = Names::new(unsafe { LLVMGetModuleContext(module) });
    let holders = prepare::prepare(&collected, &mut names);
    let variables = Variables::new(&collected);
    let planned: Vec<(Value, Vec<Task>)> = holders
        .iter()
        .map(|holder| {
            let mut tasks = plan_or_lazy(&collected, &variables, &names, holder.function);
            for task in &mut tasks {
                task.entry.for_others = holder.for_others;
            }
            (holder.function, tasks)
        })
        .collect();
    holders.iter().for_each(|holder| names.unmark(holder.function));

    write(&collected, &source, planned, open);
    true
}

/// The tasks of a function; one lazy task without details where the analysis fails.
fn plan_or_lazy(collected: &Collected, variables: &Variables, names: &Names, function: Value) -> Vec<Task> {
    let plan = AssertUnwindSafe(|| plan::plan(collected, variables, names, function));
    catch_unwind(plan).unwrap_or_else(|panic| {
        let name = helpers::demangle(&function.name());
        let text = format!(
            "mgb: failed to analyse {name}, its GPU ops are bound lazily: {}",
            message(&*panic)
        );
        helpers::diagnose(collected.module, false, &text);
        let reason = report::Reason {
            code: report::Code::Other,
            text,
            at: None,
        };
        let entry = report::Task {
            function: name,
            reasons: vec![reason],
            ..Default::default()
        };
        vec![Task {
            entry,
            insertion: None,
            obstacles: Vec::new(),
        }]
    })
}

/// Writes the plans into the module: from here on it is changed.
fn write(collected: &Collected, source: &str, planned: Vec<(Value, Vec<Task>)>, open: Open) {
    let (library_calls, driver_calls) = (open.library_calls(), open.driver_calls());
    let rewriter = rewrite::Rewriter::new(collected.module, source);
    let mut document = report::Report {
        version: report::VERSION,
        source: source.to_owned(),
        tasks: Vec::new(),
        module_reasons: open.reasons,
    };
    for (function, tasks) in planned {
        let mut insertions = Vec::new();
        for task in tasks {
            task.remark();
            let id = document.tasks.len() as u32 + 1;
            document.tasks.push(report::Task { id, ..task.entry });
            insertions.extend(task.insertion.map(|insertion| (id, insertion)));
        }
        let insertions: Vec<_> = insertions
            .iter()
            .map(|(id, insertion)| (*id, insertion))
            .collect();
        if !insertions.is_empty() {
            rewriter
                .insert(function, &insertions)
                .expect("every insertion point is in a block");
        }
        verify(function);
    }
    if let Some(reason) = document.module_reasons.first() {
        rewriter
            .open(&reason.text)
            .expect("the constructor's block is there");
    }
    rewriter
        .tell_before("mgb_before_library", &library_calls)
        .and_then(|()| rewriter.tell_before("mgb_before_driver", &driver_calls))
        .expect("a call is in a block");
    rewriter.rename(collected);
    rewriter.report(&document.to_line());
    // SAFETY: a live module and a C string.
    unsafe { LLVMGetOrInsertNamedMetadata(collected.module, MARK.as_ptr(), MARK.count_bytes()) };
}

fn verify(function: Value) {
    // SAFETY: a live function with a body.
    let broken =
        unsafe { LLVMVerifyFunction(function.raw(), LLVMVerifierFailureAction::LLVMReturnStatusAction) != 0 };
    assert!(
        !broken,
        "{} is malformed after the probes were inserted",
        helpers::demangle(&function.name())
    );
}

fn source_name(module: LLVMModuleRef) -> String {
    let mut length = 0;
    // SAFETY: LLVM gives the address and length of a string that lives as long as the module.
    let bytes = unsafe {
        let name = LLVMGetSourceFileName(module, &mut length);
        std::slice::from_raw_parts(name.cast::<u8>(), length)
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause")
}
