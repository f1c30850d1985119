//! Functions that are active several times at once: coroutines, fibers, recursion. Objects and tasks belong to an
//! activation, so that memory which leaves its GPU at any time is noticed by none.

use std::path::Path;

use mgb_tests::compiled;
use mgb_tests::report;

use crate::everywhere;

#[track_caller]
fn is_right_everywhere(case: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/activations/activations.cu");
    for level in ["-O0", "-O2"] {
        let program = compiled::program(&source, &["--offload-arch=sm_90", "-std=c++20", level]);
        let modules = report::read(&program).expect("the program has a report");
        let tasks = modules.iter().flat_map(|module| &module.tasks);
        // What is lazy shows nothing here.
        assert!(
            tasks.filter(|task| task.kind == "static").count() >= 5,
            "{level}: too few static tasks"
        );
        everywhere::is_right(&program, &[case]);
    }
}

#[test]
fn coroutines_of_one_thread_have_tasks_of_their_own() {
    is_right_everywhere("coroutines");
}

#[test]
fn a_coroutine_keeps_its_task_on_other_threads() {
    is_right_everywhere("hopping");
}

#[test]
fn a_coroutine_that_is_destroyed_leaves_nothing_to_others() {
    is_right_everywhere("abandoned");
}

#[test]
fn fibers_have_tasks_of_their_own() {
    is_right_everywhere("fibers");
}

#[test]
fn functions_that_call_each_other_have_a_task_at_each_depth() {
    is_right_everywhere("mutual");
}

#[test]
fn recursion_by_callbacks_has_a_task_at_each_depth() {
    is_right_everywhere("callbacks");
}

#[test]
fn activations_that_end_before_their_begin_leave_nothing() {
    is_right_everywhere("early");
}

#[test]
fn a_task_that_begins_again_by_longjmp_keeps_its_objects() {
    is_right_everywhere("longjmps");
}
