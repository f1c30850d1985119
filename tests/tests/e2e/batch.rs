//! `mgb batch` under each policy, on a node whose memory is short: four jobs on a GPU do not always fit.
//! `cg:4` runs out of memory, as it must; `sa` and `mgb` do not, and every result is right.

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
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

/// At most four at once, so that nothing depends on how busy this machine is.
fn batch(policy: &str) -> (i32, Value) {
    let node = PrivateNode::start("1x32MiB", policy);
    let jobs = node.write("jobs.txt", &job_list());
    let at_once = if policy == "sa" { "1" } else { "4" };
    let ended = run(node
        .mgb(&["batch", "--policy", policy, "-j", at_once, "--json"])
        .arg(jobs));
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

/// Every job's stretches on the GPU, which lie within the batch.
fn stretches(summary: &Value) -> Vec<Vec<(f64, f64)>> {
    let seconds = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no time in {summary}"));
    let makespan = seconds(&summary["makespan_s"]);
    let jobs = summary["jobs"].as_array().expect("there are jobs");
    jobs.iter()
        .map(|job| {
            let tasks = job["tasks"]
                .as_array()
                .unwrap_or_else(|| panic!("no tasks in {job}"));
            let stretch = |task: &Value| (seconds(&task["from_s"]), seconds(&task["to_s"]));
            let stretches: Vec<(f64, f64)> = tasks.iter().map(stretch).collect();
            for (from, to) in &stretches {
                assert!(0.0 <= *from && from <= to && *to <= makespan + 1e-3, "{job}");
            }
            stretches
        })
        .collect()
}

#[test]
fn the_number_of_jobs_may_follow_the_node() {
    let node = PrivateNode::start("1x32MiB", "mgb");
    let jobs = node.write("jobs.txt", &job_list());
    let ended = run(node.mgb(&["batch", "--json"]).arg(jobs));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    assert_eq!(exit_codes(&summary), [0; 12], "{summary}");
    // It begins with one a GPU; how many more there are depends on what else this machine does.
    assert_eq!(summary["auto"], true);
    let most = summary["parallel"].as_u64().unwrap_or(0);
    assert!((1..=12).contains(&most), "{summary}");
    node.wait_until_empty();
}

#[test]
fn one_process_a_gpu() {
    let (code, summary) = batch("sa");
    let mut held: Vec<(f64, f64)> = stretches(&summary).concat();
    held.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    assert_eq!(held.len(), 12, "{summary}");
    // In milliseconds, rounded.
    let apart = |pair: &[(f64, f64)]| pair[0].1 <= pair[1].0 + 2e-3;
    assert!(held.windows(2).all(apart), "one at a time on one GPU: {held:?}");
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
    // Each of these programs has one task, and some share the GPU.
    let mut held: Vec<(f64, f64)> = stretches(&summary).concat();
    held.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    assert_eq!(held.len(), 12, "{summary}");
    assert!(
        held.windows(2).any(|pair| pair[1].0 < pair[0].1),
        "nothing was shared: {held:?}"
    );
}

/// A device that fails under a program which never looks: the program ends with 0, and says so; the batch
/// takes it for failed. One that sees to it is none of that.
#[test]
fn a_gpu_that_fails_under_a_job_is_no_success() {
    let node = PrivateNode::start("1x32MiB", "mgb");
    let vecadd = built::program("vecadd");
    let script = format!("SOFTGPU_FAIL=ecc@kernel=1 {} 1000\nexit 0\n", vecadd.display());
    let script = node.write("careless.sh", &script);
    let list = format!("sh {}\n{} 1000\n", script.display(), vecadd.display());
    let jobs = node.write("jobs.txt", &list);
    let ended = run(node.mgb(&["batch", "--policy", "mgb", "--json"]).arg(jobs));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let (careless, other) = (&summary["jobs"][0], &summary["jobs"][1]);
    assert_eq!(careless["exit_code"], 0, "{summary}");
    assert_eq!(careless["state"], "failed", "{summary}");
    assert_eq!(careless["cause"]["kind"], "gpu_fault", "{summary}");
    let line = careless["cause"]["log_line"].as_str().unwrap_or("");
    assert!(line.contains("(CUDA error 214)"), "{line}");
    assert_eq!((&other["state"], &other["cause"]), (&"done".into(), &Value::Null));
    assert_eq!(ended.code(), 1, "{ended:?}");
}

/// Programs whose words nobody keeps: why they failed is known from what their processes have written down.
#[test]
fn jobs_that_say_nothing_are_judged_by_their_traces() {
    let node = PrivateNode::start("1x32MiB", "mgb");
    let rebuilt = built::program("vecadd").display().to_string();
    let plain = built::driver_program("pauses", node.folder())
        .display()
        .to_string();
    let list = format!(
        "SOFTGPU_FAIL=ecc@kernel=1 sh: {rebuilt} 1000 >/dev/null 2>&1; exit 0\n\
         sh: {rebuilt} 100000000 >/dev/null 2>&1\n\
         sh: {plain} 4096 1 1 2>&- >/dev/null\n"
    );
    let jobs = node.write("jobs.txt", &list);
    let ended = run(node.mgb(&["batch", "-j", "1", "--json"]).arg(jobs));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let causes: Vec<&Value> = (0..3).map(|job| &summary["jobs"][job]["cause"]).collect();
    for (cause, (kind, words)) in causes.iter().zip([
        ("gpu_fault", "(CUDA error 214)"),
        ("never_fits", "the largest GPU has"),
        ("never_fits", "the largest GPU has"),
    ]) {
        let line = cause["log_line"].as_str().unwrap_or("");
        assert!(
            cause["kind"] == kind && line.contains(words),
            "{cause} in {summary}"
        );
    }
    assert_eq!(ended.code(), 1, "{ended:?}");
}

#[test]
fn a_line_may_set_variables_and_ask_for_a_shell() {
    let node = PrivateNode::start("1x32MiB", "mgb");
    let vecadd = built::program("vecadd").display().to_string();
    let list = format!(
        "SIZE=7 WORD='a > b' /usr/bin/env\n\
         SIZE=1000 sh: {vecadd} $SIZE | tr a-z A-Z > said.txt && echo done\n\
         need=16MiB sh: {vecadd} 1000; exit 3\n\
         /bin/echo 'x | y' \"> z\" \\&\n"
    );
    let jobs = node.write("jobs.txt", &list);
    let logs = node.folder().join("logs");
    let mut batch = node.mgb(&["batch", "-j", "1", "--json", "--logs"]);
    let ended = run(batch.arg(&logs).arg(jobs).current_dir(node.folder()));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let codes: Vec<i64> = (0..4)
        .filter_map(|job| summary["jobs"][job]["exit_code"].as_i64())
        .collect();
    assert_eq!(codes, [0, 0, 3, 0], "{summary}");
    let read = |name: &str| std::fs::read_to_string(node.folder().join(name)).unwrap_or_default();
    let environment = read("logs/001-env.log");
    assert!(
        environment.contains("\nSIZE=7\n") || environment.starts_with("SIZE=7\n"),
        "{environment}"
    );
    assert!(environment.contains("WORD=a > b\n"), "{environment}");
    assert_eq!(read("said.txt"), "VECADD: N=1000 PASS\n");
    assert_eq!(read("logs/002-sh.log").lines().last(), Some("done"));
    assert_eq!(read("logs/004-echo.log"), "x | y > z &\n");
}

#[test]
fn what_only_a_shell_does_is_refused_before_anything_starts() {
    let node = PrivateNode::start("1x32MiB", "mgb");
    let list =
        "/bin/echo a > ran.txt\n/bin/echo b | cat\n/bin/true; /bin/true\n/bin/sleep 1 &\n/bin/echo $HOME\n";
    let jobs = node.write("jobs.txt", list);
    let ended = run(node.mgb(&["batch"]).arg(jobs).current_dir(node.folder()));
    assert_eq!(ended.code(), 2, "{ended:?}");
    for line in [
        "jobs.txt:1: `>`",
        "jobs.txt:2: `|`",
        "jobs.txt:3: `;`",
        "jobs.txt:4: `&`",
        "jobs.txt:5: `$`",
    ] {
        assert!(ended.stderr.contains(line), "{line}: {}", ended.stderr);
    }
    assert!(ended.stderr.contains("sh:"), "{}", ended.stderr);
    assert!(!node.folder().join("ran.txt").exists());
}

/// Whoever is alone on a GPU has all of the time in which that has work, however little of it mgbd has
/// sampled.
#[test]
fn the_table_tells_each_job_s_share_of_its_gpu() {
    // On this device a round of a job is long beside the time between two samples.
    let node = PrivateNode::start("1x64MiB:slow=1000", "mgb");
    let line = format!("{} 8 8 1 wait 10 8\n", built::program("phases").display());
    let jobs = node.write("jobs.txt", &line.repeat(2));
    let ended = run(node.mgb(&["batch", "-j", "1", "--json"]).arg(&jobs));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let shares: Vec<&Value> = summary["jobs"]
        .as_array()
        .unwrap_or_else(|| panic!("no jobs in {summary}"))
        .iter()
        .map(|job| &job["share"])
        .collect();
    assert_eq!(shares, [1.0, 1.0], "{summary}");
    let ended = run(node.mgb(&["batch", "-j", "2"]).arg(&jobs)).success();
    assert!(ended.contains("  share  ") && ended.contains("%  "), "{ended}");
    node.wait_until_empty();
}
