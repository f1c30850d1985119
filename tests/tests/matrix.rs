//! One program in every arrangement that programs have (`tests/matrix`), on software GPUs: closed, open by
//! `dlopen` and open by a library; on one device and on two; with one thread and a thread per device; in
//! default streams, streams of its own and graphs; with pinned, pageable and managed memory. Under MGB it
//! prints what it prints natively, and each of its devices has a GPU of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;
use mgb_tests::trace;

const PROGRAMS: [&str; 3] = ["matrix", "matrix_loads", "matrix_linked"];
const THREADS: [&str; 2] = ["one", "each"];
const STREAMS: [&str; 3] = ["default", "streams", "graphs"];
const MEMORY: [&str; 3] = ["pinned", "pageable", "managed"];

/// The arguments of every case, the number of devices last.
fn cases() -> Vec<[&'static str; 4]> {
    let mut cases = Vec::new();
    for threads in THREADS {
        for streams in STREAMS {
            for memory in MEMORY {
                cases.extend(["1", "2"].map(|devices| [threads, streams, memory, devices]));
            }
        }
    }
    cases
}

/// What is wrong with a program's case under MGB.
fn wrong(node: &PrivateNode, program: &Path, case: &[&str; 4], expected: &str) -> Option<String> {
    let file = node.folder().join("trace");
    let _ = std::fs::remove_file(&file);
    let mut command = node.command(program, case);
    command.env("MGB", "require").env("MGB_TRACE", &file);
    let ended = run(command.env("SOFTGPU_TIME", "off"));
    if ended.code() != 0 || ended.stdout != expected {
        return Some(format!("{ended:?}, natively {expected}"));
    }
    let processes = trace::read(&file).expect("the trace can be read");
    let tasks = processes.iter().flat_map(|process| &process.tasks);
    let used: BTreeSet<u32> = tasks.filter_map(|task| task.gpu).collect();
    let devices: usize = case[3].parse().expect("a number");
    (used.len() < devices).then(|| format!("{devices} devices on the GPUs {used:?}"))
}

#[test]
fn every_arrangement_is_as_natively() {
    let folder = built::matrix();
    let node = PrivateNode::start("2x256MiB", "mgb");
    let natively: BTreeMap<[&str; 4], String> = cases()
        .into_iter()
        .map(|case| {
            let mut command = node.command(folder.join(PROGRAMS[0]), &case);
            let ended = run(command.env("MGB", "off").env("SOFTGPU_TIME", "off"));
            (case, ended.success())
        })
        .collect();
    let mut all = Vec::new();
    for program in PROGRAMS {
        for (case, expected) in &natively {
            let text = wrong(&node, &folder.join(program), case, expected);
            all.extend(text.map(|text| format!("{program} {}: {text}", case.join(" "))));
        }
    }
    assert!(
        all.is_empty(),
        "{} cases are wrong:\n{}",
        all.len(),
        all.join("\n")
    );
    node.wait_until_empty();
}
