//! Needs that are higher than what a program allocates. It runs as it does natively: where a need fits no GPU, the
//! task is bound by what it allocates.

use std::path::Path;

use mgb_tests::compiled;
use mgb_tests::report;

use crate::everywhere;

#[track_caller]
fn runs(case: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/advice/advice.cu");
    for level in ["-O0", "-O2"] {
        let program = compiled::program(&source, &["--offload-arch=sm_90", "-std=c++17", level]);
        let modules = report::read(&program).expect("the program has a report");
        let tasks = modules.iter().flat_map(|module| &module.tasks);
        // What is lazy has no need.
        assert!(
            tasks.filter(|task| task.kind == "static").count() >= 6,
            "{level}: too few static tasks"
        );
        everywhere::is_right(&program, &[case, "64"]);
    }
}

#[test]
fn a_branch_that_is_not_taken_needs_nothing() {
    runs("branch");
}

#[test]
fn sizes_that_are_not_meant_need_nothing() {
    runs("sizes");
}

#[test]
fn what_is_tried_and_refused_is_not_needed() {
    runs("fallback");
}

#[test]
fn a_loop_takes_what_there_is() {
    runs("probing");
}

#[test]
fn a_loop_that_breaks_off_needs_what_it_has_made() {
    runs("breaking");
}

#[test]
fn many_temporaries_need_one_after_the_other() {
    runs("temporaries");
}

#[test]
fn small_objects_need_what_they_are_packed_in() {
    runs("small");
}

#[test]
fn what_was_refused_leaves_its_room_to_others() {
    runs("refused");
}
