//! The report that stays in the program: as many static tasks as the example says, and the reasons for what is lazy.

use std::collections::BTreeSet;

use mgb_tests::built::{self, LEVELS, examples};
use mgb_tests::node::Node;
use mgb_tests::process::run;
use mgb_tests::report;

#[test]
fn reports_say_what_examples_say() {
    let mut wrong = Vec::new();
    for level in LEVELS {
        let folder = built::at(level);
        for example in examples() {
            let modules =
                report::read(&folder.join(&example.name)).unwrap_or_else(|e| panic!("{level}: {e:#}"));
            let tasks: Vec<_> = modules.iter().flat_map(|m| &m.tasks).collect();
            let statics = tasks.iter().filter(|t| t.kind == "static").count();
            if statics != example.directives.static_tasks {
                let found: Vec<_> = tasks.iter().map(|t| (&t.kind, &t.reasons)).collect();
                wrong.push(format!(
                    "{} {level}: {statics} static tasks: {found:?}",
                    example.name
                ));
            }
            let codes: BTreeSet<&str> = tasks
                .iter()
                .flat_map(|t| &t.reasons)
                .map(|r| r.code.as_str())
                .collect();
            for code in &example.directives.lazy {
                let found = if code == "any" {
                    !codes.is_empty()
                } else {
                    codes.contains(code.as_str())
                };
                if !found {
                    wrong.push(format!(
                        "{} {level}: not lazy for {code}, but for {codes:?}",
                        example.name
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
