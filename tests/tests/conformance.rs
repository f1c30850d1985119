//! The conformance set on softgpu: every case as a real GPU recorded it, natively and under MGB.

use std::fs;

use mgb_tests::built;
use mgb_tests::conformance::{Output, Program, parse, programs, with_table, wrong};
use mgb_tests::node::Node;
use mgb_tests::prefix::repository;
use mgb_tests::process::Running;

/// A case waits for nothing, and some programs have fifty.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(240);

fn run(node: &Node, program: &Program, mode: &str, order: &str) -> Output {
    let path = built::conformance().join(&program.name);
    let mut command = node.command(path, &[]);
    command.env("MGB", mode).env("SOFTGPU_TIME", "off");
    command.env("SOFTGPU_ORDER", order);
    parse(&Running::start(&mut command).end_within(PATIENCE).success())
}

fn all(node: &Node, mode: &str, order: &str) {
    let wrong: Vec<String> = programs()
        .iter()
        .flat_map(|program| wrong(program, &run(node, program, mode, order)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn natively() {
    all(&Node::without_mgbd("1x2GiB"), "off", "");
}

/// What is right on a GPU depends on no order.
#[test]
fn in_any_order() {
    for order in ["reverse", "1", "2"] {
        all(&Node::without_mgbd("1x2GiB"), "off", order);
    }
}

#[test]
fn under_mgb() {
    let node = Node::start("1x2GiB", "mgb");
    all(&node, "require", "");
    node.wait_until_empty();
}

#[test]
fn the_table_is_current() {
    let file = repository().join("docs/SOFTGPU.md");
    let kept = fs::read_to_string(&file).expect("docs/SOFTGPU.md can be read");
    assert_eq!(
        kept,
        with_table(&kept),
        "docs/SOFTGPU.md is not current: run `make support`"
    );
}
