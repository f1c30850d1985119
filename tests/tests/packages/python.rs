//! The Python package of the wheel, from its sources: what it makes of arguments, and needs that a process
//! declares.

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, repository};
use mgb_tests::process::{command, run};

#[test]
fn the_package_reads_what_people_write_and_mgb_prints() {
    let mut units = command("python3", &["-B"]);
    units.arg(repository().join("tests/python/units.py"));
    run(units.env_remove("MGB_PREFIX")).success();
}

#[test]
fn a_declared_need_is_reserved_until_it_is_over() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    for (script, part) in [
        ("scripts", "names-under-front"),
        ("needs", "need"),
        ("needs", "need-early"),
        ("needs", "need-too-large"),
        ("needs", "need-threads"),
        ("needs", "need-fork"),
    ] {
        let mut program = node.mgb(&["run", "python3", "-B"]);
        program
            .arg(repository().join(format!("tests/wheel/{script}.py")))
            .arg(part);
        program.env("PYTHONPATH", repository().join("python"));
        let said = run(program.env("MGB_PREFIX", prefix())).success();
        assert!(said.contains("PASS"), "{part}: {said}");
    }
}
