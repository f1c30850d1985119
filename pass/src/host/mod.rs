//! The host module's half of the pass, a module per phase:
//!
//! `collect` finds the runtime's functions and the stubs of kernels; `prepare` inlines small
//! wrappers, and the helpers that `helping` finds, and promotes variables where there are GPU ops;
//! then, for each function that holds any, `plan` works out the tasks: `launches`, the `objects`
//! behind their pointers, `tasks` merged where they share objects, their `needs`, the `placement`
//! of their begins and `ends`.
//! Last, `rewrite` inserts the probes and renames the runtime's functions to lazyrt's.
//!
//! Of a whole program a compile only has `sources` keep what the link cannot find out; the linker then runs
//! the same phases over the merged module, and there is a report for each source file that tasks stand in.
//!
//! Nothing is inserted before all is planned. A function whose analysis fails is left lazy, with a
//! warning: renaming its calls is always right.
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use inkwell::llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyFunction};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMModuleRef;
use mgb_catalogue::report;

mod collect;
mod ir;
mod needs;
mod objects;
mod plan;
mod prepare;
mod reason;
mod rewrite;
mod tasks;

use collect::open::{self, OpenModule};
use collect::parts::{self, TwinRegistration};
use collect::resources::Resources;
use collect::sources::{self, SourceFacts};
use collect::variables::Variables;
use collect::{Collected, twelve};
use ir::Value;
use ir::helpers;
use ir::names::ValueNames;
use plan::PlannedTask;
use tasks::devices::Choosers;

/// The named metadata that a processed module carries.
const MARK: &std::ffi::CStr = c"mgb.processed";

/// Rewrites a host module while it is compiled; true when it was changed.
pub fn run(module: LLVMModuleRef) -> bool {
    if is_processed(module) {
        return false;
    }
    let adapted = twelve::adapt(module);
    rewrite(module, |collected| {
        sources::compiled(collected).into_iter().collect()
    }) || adapted
}

/// Rewrites the merged modules of a whole program; true when they were changed. Modules among them that were
/// processed as they were compiled call lazyrt already, and are skipped.
pub fn run_at_link(module: LLVMModuleRef) -> bool {
    sources::restore_names(module);
    rewrite(module, |collected| sources::kept(collected.module))
}

/// Keeps in a host module what the link must know of its source. True if the module uses CUDA.
pub fn leave_to_link(module: LLVMModuleRef) -> bool {
    sources::keep_names(module);
    twelve::adapt(module);
    if is_processed(module) {
        return false;
    }
    let collected = Collected::new(module);
    if !collected.is_empty()
        && let Some(source) = sources::compiled(&collected)
    {
        sources::keep(module, &source);
    }
    !collected.is_empty()
}

fn is_processed(module: LLVMModuleRef) -> bool {
    // SAFETY: a live module and a C string.
    !unsafe { LLVMGetNamedMetadata(module, MARK.as_ptr(), MARK.count_bytes()) }.is_null()
}

fn rewrite(module: LLVMModuleRef, sources: impl FnOnce(&Collected) -> Vec<SourceFacts>) -> bool {
    catch_unwind(AssertUnwindSafe(|| process(module, sources))).unwrap_or_else(|panic| {
        // The module may be rewritten in part: such a module must not be used.
        let text = format!("mgb: failed to rewrite the module: {}", message(&*panic));
        helpers::diagnose(module, true, &text);
        true
    })
}

fn process(module: LLVMModuleRef, sources: impl FnOnce(&Collected) -> Vec<SourceFacts>) -> bool {
    let collected = Collected::new(module);
    let open = open::look(&collected);
    if collected.is_empty() && open.reasons.is_empty() {
        return false;
    }
    // SAFETY: a live module.
    let mut names = ValueNames::new(unsafe { LLVMGetModuleContext(module) });
    let holders = prepare::prepare(&collected, &mut names);
    let sources = if collected.is_empty() {
        Vec::new()
    } else {
        sources(&collected)
    };
    let (kernels, twins) = (parts::reports(&sources), parts::twins(&collected, &sources));
    let variables = Variables::new(&collected, sources);
    let resources = Resources::new(&collected);
    let choosers = Choosers::new(&collected);
    let planned: Vec<(Value, Vec<PlannedTask>)> = holders
        .iter()
        .map(|holder| {
            let mut tasks = plan_or_lazy(
                &collected,
                &variables,
                &resources,
                &choosers,
                &names,
                holder.function,
            );
            for task in &mut tasks {
                task.entry.for_others = holder.for_others;
            }
            (holder.function, tasks)
        })
        .collect();
    holders.iter().for_each(|holder| names.unmark(holder.function));

    write(&collected, planned, open, kernels, &twins);
    true
}

/// The tasks of a function; one lazy task without details where the analysis fails.
fn plan_or_lazy(
    collected: &Collected,
    variables: &Variables,
    resources: &Resources,
    choosers: &Choosers,
    names: &ValueNames,
    function: Value,
) -> Vec<PlannedTask> {
    let plan = AssertUnwindSafe(|| plan::plan(collected, variables, resources, choosers, names, function));
    catch_unwind(plan).unwrap_or_else(|panic| {
        let name = helpers::demangle(&function.name());
        let text = format!(
            "mgb: failed to analyse {name}, its GPU ops are bound lazily: {}",
            message(&*panic)
        );
        helpers::diagnose(collected.module, false, &text);
        let reason = report::Reason {
            code: report::ReasonCode::Other,
            text,
            at: None,
        };
        let entry = report::TaskReport {
            function: name,
            reasons: vec![reason],
            ..Default::default()
        };
        vec![PlannedTask {
            entry,
            insertion: None,
            obstacles: Vec::new(),
        }]
    })
}

/// Writes the plans into the module: from here on it is changed.
fn write(
    collected: &Collected,
    planned: Vec<(Value, Vec<PlannedTask>)>,
    open: OpenModule,
    kernels: Vec<(String, report::KernelReport)>,
    twins: &[TwinRegistration],
) {
    let (library_calls, driver_calls) = (open.library_calls(), open.driver_calls());
    let mut rewriter = rewrite::Rewriter::new(collected.module);
    let mut reports = Reports::new(open.reasons.clone());
    for (function, tasks) in planned {
        if tasks.is_empty() {
            continue;
        }
        let source = helpers::source(function);
        let report = reports.of(&source);
        let mut insertions = Vec::new();
        for task in tasks {
            task.remark();
            let id = report.tasks.len() as u32 + 1;
            report.tasks.push(report::TaskReport { id, ..task.entry });
            insertions.extend(task.insertion.map(|insertion| (id, insertion)));
        }
        let insertions: Vec<_> = insertions
            .iter()
            .map(|(id, insertion)| (*id, insertion))
            .collect();
        if !insertions.is_empty() {
            rewriter
                .insert(function, &source, &insertions)
                .expect("every insertion point is in a block");
        }
        verify(function);
    }
    for (source, kernel) in kernels {
        reports.of(&source).kernels.push(kernel);
    }
    if reports.all.is_empty() {
        reports.of(&source_name(collected.module));
    }
    if let Some(reason) = open.reasons.first() {
        rewriter
            .open(&reason.text)
            .expect("the constructor's block is there");
    }
    rewriter
        .notify_before("mgb_before_library", &library_calls)
        .and_then(|()| rewriter.notify_before("mgb_before_driver", &driver_calls))
        .and_then(|()| rewriter.register_twins(twins))
        .and_then(|()| {
            if twins.is_empty() {
                return Ok(());
            }
            rewriter.forget_twins(&collected.calls_of("__cudaUnregisterFatBinary"))
        })
        .expect("a call is in a block");
    rewriter.rename(collected);
    for report in &reports.all {
        rewriter.report(&report.to_line());
    }
    // SAFETY: a live module and a C string.
    unsafe { LLVMGetOrInsertNamedMetadata(collected.module, MARK.as_ptr(), MARK.count_bytes()) };
}

/// A report for each source file, in the order of their first functions: a module that is compiled has one, a
/// whole program several. What makes the process open holds for each.
struct Reports {
    all: Vec<report::Report>,
    by_source: HashMap<String, usize>,
    module_reasons: Vec<report::Reason>,
}

impl Reports {
    fn new(module_reasons: Vec<report::Reason>) -> Self {
        Self {
            all: Vec::new(),
            by_source: HashMap::new(),
            module_reasons,
        }
    }

    fn of(&mut self, source: &str) -> &mut report::Report {
        let at = *self.by_source.entry(source.to_owned()).or_insert_with(|| {
            self.all.push(report::Report {
                version: report::VERSION,
                source: source.to_owned(),
                tasks: Vec::new(),
                module_reasons: self.module_reasons.clone(),
                kernels: Vec::new(),
            });
            self.all.len() - 1
        });
        &mut self.all[at]
    }
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

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause")
}
