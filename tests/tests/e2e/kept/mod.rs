//! Loops whose iterations use objects of earlier ones: their memory stays where it is, and is found wherever it is
//! evicted.

use std::path::{Path, PathBuf};

use mgb_tests::compiled;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;
use mgb_tests::trace;

use crate::everywhere;

fn program(level: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/kept/kept.cu");
    compiled::program(&source, &["--offload-arch=sm_90", level])
}

#[track_caller]
fn is_right_everywhere(case: &str) {
    for level in ["-O0", "-O2"] {
        everywhere::is_right(&program(level), &[case]);
    }
}

/// Nothing leaves the GPU of a program that is alone on it.
#[track_caller]
fn stays_where_it_is(case: &str) {
    for level in ["-O0", "-O2"] {
        let node = PrivateNode::start("1x128MiB", "mgb");
        let file = node.folder().join("trace.jsonl");
        let mut command = node.command(program(level), &[case]);
        command.env("MGB", "require").env("MGB_TRACE", &file);
        RunningProgram::start(&mut command).end().success();
        let processes = trace::read(&file).expect("it has left a line");
        let swaps = processes
            .iter()
            .flat_map(|process| &process.tasks)
            .map(|task| task.swaps.len());
        assert_eq!(swaps.sum::<usize>(), 0, "{case} {level}");
        node.wait_until_empty();
    }
}

macro_rules! kept {
    ($($name:ident: $case:literal;)*) => {$(
        #[test]
        fn $name() {
            is_right_everywhere($case);
            stays_where_it_is($case);
        }
    )*};
}

kept! {
    a_workspace_that_grows_is_kept: "workspace";
    buffers_of_the_first_iteration_are_kept: "first";
    a_history_of_buffers_is_kept: "history";
    the_object_of_the_iteration_before_is_kept: "previous";
    what_an_iteration_that_throws_leaves_is_kept: "thrown";
    what_is_lost_stays_where_it_is: "lost";
}

#[test]
fn an_allocation_that_fails_leaves_null() {
    is_right_everywhere("failing");
}
