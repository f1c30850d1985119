//! The report that stays in the program: as many static tasks as the example says, and the reasons for what is lazy.

use std::collections::BTreeSet;

use mgb_tests::built::{self, Example, LEVELS, examples};
use mgb_tests::formula;
use mgb_tests::node::Node;
use mgb_tests::process::run;
use mgb_tests::report::{self, Task};

#[test]
fn reports_say_what_examples_say() {
    let mut wrong = Vec::new();
    for level in LEVELS {
        let folder = built::at(level);
        for example in examples() {
            let modules =
                report::read(&folder.join(&example.name)).unwrap_or_else(|e| panic!("{level}: {e:#}"));
            let tasks: Vec<Task> = modules.into_iter().flat_map(|module| module.tasks).collect();
            let found = static_tasks(&example, &tasks).and_then(|()| lazy_reasons(&example, &tasks));
            wrong.extend(
                found
                    .err()
                    .map(|difference| format!("{} {level}: {difference}", example.name)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As many as the example says, and their formulas give at its arguments what the example says. A task that is begun
/// several times is in the report once.
fn static_tasks(example: &Example, tasks: &[Task]) -> Result<(), String> {
    let directives = &example.directives;
    let formulas: Vec<&String> = tasks
        .iter()
        .filter(|t| t.kind == "static")
        .filter_map(|t| t.need.peak.as_ref())
        .collect();
    if formulas.len() != directives.static_tasks {
        return Err(format!(
            "the static tasks are {formulas:?}, not {}",
            directives.static_tasks
        ));
    }
    for case in &directives.cases {
        let values = case.values();
        let mut peaks = BTreeSet::new();
        for formula in &formulas {
            peaks.insert(formula::evaluate(formula, &values).map_err(|e| format!("{e:#}"))? as u64);
        }
        let expected = directives.peaks_for(case).expect("the directives are right");
        let expected: BTreeSet<u64> = expected.into_iter().collect();
        if peaks != expected {
            return Err(format!(
                "{formulas:?} are {peaks:?} at {values:?}, not {expected:?}"
            ));
        }
    }
    Ok(())
}

/// Every reason that the example names; none at all where it names none.
fn lazy_reasons(example: &Example, tasks: &[Task]) -> Result<(), String> {
    let found: BTreeSet<&str> = tasks
        .iter()
        .flat_map(|t| &t.reasons)
        .map(|r| r.code.as_str())
        .collect();
    let expected: BTreeSet<&str> = example.directives.lazy.iter().map(String::as_str).collect();
    if expected.is_subset(&found) && expected.is_empty() == found.is_empty() {
        return Ok(());
    }
    Err(format!("lazy for {found:?}, not for {expected:?}"))
}

#[test]
fn explain_prints_the_formula_and_the_reason() {
    let node = Node::without_mgbd("1x64MiB");
    let explain = |name: &str| {
        let program = built::program(name);
        run(&mut node.mgb(&["explain", program.to_str().expect("paths of tests are UTF-8")])).success()
    };
    let vecadd = explain("vecadd");
    assert!(
        vecadd.contains("static") && vecadd.contains("vecadd.cu"),
        "{vecadd}"
    );
    let init_run = explain("init_run");
    assert!(
        init_run.contains("lazy") && init_run.contains("init_run.cu"),
        "{init_run}"
    );
}

#[test]
fn explain_names_what_it_cannot_read() {
    let node = Node::without_mgbd("1x64MiB");
    let source = node.write("notes.txt", "no program");
    let source = source.to_str().expect("paths of tests are UTF-8");
    run(&mut node.mgb(&["explain", source])).failure(&["notes.txt"]);
    run(&mut node.mgb(&["explain", "nowhere.o"])).failure(&["nowhere.o"]);
}
