//! `mgb batch` under each policy, on a node whose memory is short: four jobs on a GPU do not always fit. `cg:4` runs out
//! of memory, as it must; `sa` and `mgb` do not, and every result is right.

use mgb_tests::built;
use mgb_tests::node::Node;
use mgb_tests::process::run;
use serde_json::Value;

/// Twelve jobs; the big ones take 14 of the 32 MiB of a GPU, so that four of them never fit at once.
fn job_list() -> String {
    let program = |name: &str| built::program(name).display().to_string();
    let mut lines = vec!["# a comment, and an empty line".to_owned(), String::new()];
    for _ in 0..2 {
        lines.push(format!("{} 14 3 20 wait 10 8", program("phases")));
        lines.push(format!("{} 14 2 30 wait 10 8", program("phases")));
        // As one that was not rebuilt: the whole process is one task, placed by device mask.
        lines.push(format!("need=16MiB {} 1000000", program("vecadd")));
        lines.push(format!("{} 14 3 20 wait 10 8", program("phases")));
        lines.push(format!("{} 14 2 30 wait 10 8", program("phases")));
        lines.push(format!("{} 100000 2", program("init_run_split")));
    }
    lines.join("\n") + "\n"
}

fn batch(policy: &str) -> (i32, Value) {
    let node = Node::start("1x32MiB", policy);
    let jobs = node.write("jobs.txt", &job_list());
    let ended = run(node.mgb(&["batch", "--policy", policy, "--json"]).arg(jobs));
    let code = ended.code();
    let summary = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    node.wait_until_empty();
    (code, summary)
}

/// The exit codes of all jobs.
fn exit_codes(summary: &Value) -> Vec<i64> {
    let jobs = summary["jobs"]
        .as_array()
        .unwrap_or_else(|| panic!("no jobs in {summary}"));
    assert_eq!(jobs.len(), 12);
    jobs.iter()
        .map(|job| job["exit_code"].as_i64().unwrap_or(-1))
        .collect()
}

#[test]
fn one_process_a_gpu() {
    let (code, summary) = batch("sa");
    assert_eq!(exit_codes(&summary), [0; 12], "{summary}");
    assert_eq!(code, 0);
}

#[test]
fn four_a_gpu_without_knowledge_run_out_of_memory() {
    let (code, summary) = batch("cg:4");
    let failed = exit_codes(&summary).iter().filter(|&&code| code != 0).count();
    assert!(failed > 0, "{summary}");
    assert_ne!(code, 0);
}

#[test]
fn mgb_packs_without_running_out_of_memory() {
    let (code, summary) = batch("mgb");
    assert_eq!(exit_codes(&summary), [0; 12], "{summary}");
    assert_eq!(code, 0);
}
