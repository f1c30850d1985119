//! The `mgbd` command line: what it refuses, how, and with which exit code.

use std::process::{Command, Output};

fn mgbd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mgbd"))
        .args(arguments)
        // No GPU, wherever the test runs.
        .env("CUDA_VISIBLE_DEVICES", "none")
        .output()
        .unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn an_unknown_policy_is_refused_and_the_known_ones_named() {
    let output = mgbd(&["--policy", "fifo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("unknown policy `fifo`; known are mgb, "));
}

#[test]
fn a_capacity_that_is_no_size_is_refused() {
    let output = mgbd(&["--capacity", "much"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("`much` is no size"));
}

#[test]
fn without_a_gpu_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mgbd.sock");
    let output = mgbd(&["--socket", socket.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    let complaint = complaint(&output);
    assert!(
        complaint.contains("software GPUs") || complaint.contains("leaves no GPU visible"),
        "{complaint}"
    );
    assert!(!socket.exists());
}

#[test]
fn an_order_that_the_policy_does_not_serve_in_is_refused() {
    let output = mgbd(&["--policy", "cg:2", "--queue", "shortest"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("policy cg:2 has an order of its own (in-order)"));
    let output = mgbd(&["--queue", "lifo"]);
    assert!(
        complaint(&output).contains(
            "unknown queue `lifo`; known are in-order, backfill, shortest, largest, edf and laxity"
        )
    );
}
