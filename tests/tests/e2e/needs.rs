//! What the pass says a task needs, what the example's source says, and what lazyrt saw are one number, at
//! every optimisation level (`make test` plays two of them, `make levels-test` all).

use mgb_tests::built::{self, Example, examples};
use mgb_tests::directives::ExampleRun;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;
use mgb_tests::trace::{self, TracedProcess};

#[test]
fn at_level_0() {
    every_example("-O0");
}

#[test]
fn at_level_1() {
    every_example("-O1");
}

#[test]
#[ignore = "to the pass as -O1: make levels-test"]
fn at_level_2() {
    every_example("-O2");
}

#[test]
#[ignore = "to the pass as -O1: make levels-test"]
fn at_level_3() {
    every_example("-O3");
}

fn every_example(level: &'static str) {
    let folder = built::at(level);
    let node = PrivateNode::start("2x64MiB", "mgb");
    let mut wrong = Vec::new();
    for example in examples() {
        for (number, case) in example.directives.cases.iter().enumerate() {
            let file = node.folder().join(format!("{}.{number}.trace", example.name));
            let mut command = node.command(folder.join(&example.name), &case.command_line());
            let ended = run(command.env("MGB_TRACE", &file));
            assert_eq!(
                ended.stdout.trim_end(),
                case.stdout,
                "{} {level}: {}",
                example.name,
                ended.stderr
            );
            let processes = trace::read(&file).unwrap_or_else(|e| panic!("{} {level}: {e:#}", example.name));
            assert_eq!(processes.len(), 1, "one line a process");
            if let Err(difference) = compare(&example, case, &processes[0]) {
                wrong.push(format!("{} {level}: {difference}", example.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn compare(example: &Example, case: &ExampleRun, process: &TracedProcess) -> Result<(), String> {
    let directives = &example.directives;
    let expected = directives.peaks_for(case).expect("the directives are right");
    if let Some(why) = &process.open {
        // The driver front serves it: needs are not used, and what it allocates is charged in granules.
        let seen: u64 = process.tasks.iter().map(|task| task.seen_peak).sum();
        if process.tasks.iter().any(|task| !task.lazy) || seen < expected.iter().sum() {
            return Err(format!("an open process ({why}): {:?}", process.tasks));
        }
        return Ok(());
    }
    let mut needed: Vec<u64> = process
        .tasks
        .iter()
        .filter(|t| !t.lazy)
        .map(|t| t.need_peak)
        .collect();
    let mut seen: Vec<u64> = process
        .tasks
        .iter()
        .filter(|t| !t.lazy)
        .map(|t| t.seen_peak)
        .collect();
    needed.sort_unstable();
    seen.sort_unstable();
    if needed != expected || seen != expected {
        return Err(format!(
            "static tasks: the source says {expected:?}, the pass {needed:?}, lazyrt saw {seen:?}"
        ));
    }
    // One lazy task for each device that the program uses: together they have what the source allocates.
    let expected: u64 = directives
        .record_for(case)
        .expect("the directives are right")
        .into_iter()
        .sum();
    let seen: u64 = process.tasks.iter().filter(|t| t.lazy).map(|t| t.seen_peak).sum();
    if seen != expected {
        return Err(format!(
            "lazy tasks: the source allocates {expected}, lazyrt saw {seen}"
        ));
    }
    Ok(())
}
