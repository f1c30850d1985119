//! `mgb bench` on a list of jobs: the baselines beside MGB, jobs alone, the bound, failures counted, and
//! going on with what was measured before.

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{Ended, run};
use serde_json::Value;

/// Eight jobs; the big ones take 14 of the 32 MiB of a GPU, so that four of them never fit at once.
fn job_list() -> String {
    let phases = built::program("phases").display().to_string();
    let lines = [" 14 3 20 wait 10 8", " 14 2 30 wait 10 8", " 6 2 20 wait 10 8"];
    let line = |index: usize| format!("{phases}{}\n", lines[[0, 1, 0, 2][index % 4]]);
    (0..8).map(line).collect()
}

fn bench(node: &PrivateNode, arguments: &[&str]) -> Ended {
    let jobs = node.write("jobs.txt", &job_list());
    let mut command = node.mgb(&["bench", "--json", "--list"]);
    run(command.arg(jobs).args(arguments))
}

fn document(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn figures<'a>(document: &'a Value, policy: &str) -> &'a Value {
    let all = document["figures"].as_array().expect("there are figures");
    let found = all.iter().find(|one| one["policy"] == policy);
    found.unwrap_or_else(|| panic!("no {policy} in {document}"))
}

#[test]
fn a_list_is_compared_and_gone_on_with() {
    let node = PrivateNode::without_mgbd("1x32MiB");
    let first = bench(&node, &["--policy", "sa,cg:4", "--output", "out.json"]);
    assert_eq!(first.code(), 0, "cg may fail: {first:?}");
    let results = document(&first);
    assert_eq!(results["runs"].as_array().map(Vec::len), Some(2));
    // Each distinct job once, with what it takes of the host.
    let alone = results["alone"].as_array().expect("jobs alone");
    assert_eq!(alone.len(), 3);
    assert!(
        alone
            .iter()
            .all(|job| job["host_peak_bytes"].as_u64() > Some(6 << 20)),
        "{alone:?}"
    );
    assert!(
        figures(&results, "cg:4")["failed"].as_u64() > Some(0),
        "{results}"
    );
    assert_eq!(figures(&results, "sa")["throughput_over_sa"], 1.0);
    // What is told to others names no folder of this machine.
    let log = &results["runs"][0]["batch"]["jobs"][0]["log"];
    assert!(
        log.as_str()
            .is_some_and(|log| log.starts_with("logs/sa") || log.starts_with("logs/jobs-sa")),
        "{log}"
    );
    let page = std::fs::read_to_string(node.folder().join("out.html")).expect("there is a page");
    assert!(page.contains("Throughput over sa") && page.contains("data-policy=\"cg:4\""));

    let again = bench(
        &node,
        &["--policy", "sa,mgb", "--jobs", "4,auto", "--resume", "out.json"],
    );
    assert_eq!(again.code(), 0, "{again:?}");
    assert!(
        again.stderr.contains("sa, run 1: in the document already"),
        "{again:?}"
    );
    let results = document(&again);
    let runs = results["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    let order = |run: &Value| -> Vec<Value> {
        let jobs = run["batch"]["jobs"].as_array().expect("jobs");
        jobs.iter().map(|job| job["command"].clone()).collect()
    };
    assert!(runs.iter().all(|run| order(run) == order(&runs[0])));
    for name in ["mgb -j 4", "mgb -j auto"] {
        let mgb = figures(&results, name);
        assert_eq!(
            (mgb["failed"].as_u64(), mgb["jobs"].as_u64()),
            (Some(0), Some(8)),
            "{results}"
        );
        assert!(mgb["throughput_over_sa"].as_f64() > Some(0.0), "{mgb}");
        assert!(
            mgb["efficiency"]
                .as_f64()
                .is_some_and(|share| share > 0.0 && share <= 1.0),
            "{mgb}"
        );
    }
    assert_eq!(figures(&results, "mgb -j 4")["at_once"], 4);

    let other = bench(&node, &["--seed", "7", "--resume", "out.json"]);
    assert_eq!(other.code(), 3);
    assert!(other.stderr.contains("seed: 1 there, 7 here"), "{other:?}");
    let there = bench(&node, &["--output", "out.json"]);
    assert_eq!(there.code(), 2, "{there:?}");
    assert!(there.stderr.contains("is there already"), "{there:?}");
}

#[test]
fn the_shortest_go_first_where_mgbd_has_seen_the_jobs_before() {
    // One job at a time has room. They differ in their arguments only.
    let node = PrivateNode::without_mgbd("1x32MiB");
    let phases = built::program("phases").display().to_string();
    let long = format!("{phases} 20 16 20 wait 10 8\n");
    let short = format!("{phases} 20 2 20 wait 10 8\n");
    let jobs = node.write("jobs.txt", &format!("{short}{short}{long}{long}"));
    let mut command = node.mgb(&[
        "bench",
        "--json",
        "--policy",
        "mgb/shortest",
        "--jobs",
        "4",
        "--list",
    ]);
    let ended = run(command.arg(jobs));
    assert_eq!(ended.code(), 0, "{ended:?}");
    let results = document(&ended);
    let runs = results["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1, "the rehearsal is no run");
    assert_eq!(
        (&runs[0]["rehearsed"], &runs[0]["served"]),
        (&true.into(), &"shortest".into())
    );
    let jobs = runs[0]["batch"]["jobs"].as_array().expect("jobs");
    assert_eq!(
        jobs[3]["command"],
        short.trim(),
        "a short one is queued last, or the test shows nothing"
    );
    let last = jobs.iter().max_by(|a, b| {
        let begins = |job: &Value| job["tasks"][0]["from_s"].as_f64().expect("a task");
        begins(a).total_cmp(&begins(b))
    });
    assert_eq!(
        last.map(|job| &job["command"]),
        Some(&Value::from(long.trim())),
        "{jobs:?}"
    );
}

#[test]
fn a_failure_for_memory_that_the_program_words_itself_is_counted() {
    let node = PrivateNode::without_mgbd("1x32MiB");
    let phases = built::program("phases").display().to_string();
    // Each fits alone, two do not fit at once; none says a word of CUDA's.
    let script = format!("{phases} 18 3 20 wait 10 8 >/dev/null 2>&1 || {{ echo no room; exit 7; }}\n");
    let program = node.write("silent.sh", &script);
    let jobs = node.write("jobs.txt", &format!("sh {}\n", program.display()).repeat(4));
    let mut command = node.mgb(&["bench", "--json", "--policy", "cg:4", "--list"]);
    let ended = run(command.arg(jobs));
    assert_eq!(ended.code(), 0, "cg may fail: {ended:?}");
    let results = document(&ended);
    let cg = figures(&results, "cg:4");
    assert!(cg["failed"].as_u64() > Some(0), "{results}");
    assert_eq!(cg["failed_for_memory"], cg["failed"], "{results}");
    assert!(
        results["alone"][0]["gpu_peak_bytes"].as_u64() >= Some(18 << 20),
        "{results}"
    );
    let cause = &results["runs"][0]["batch"]["jobs"];
    assert!(cause.to_string().contains("GPU 0 was full"), "{cause}");
}
