//! The table in BENCHMARKING.md and the picture in README.md are what the documents of `mgb bench` under
//! `benches/results/` say.

use std::fs;
use std::path::PathBuf;

use mgb_tests::prefix::repository;
use mgb_tests::process::{Ended, command, run};
use serde_json::{Value, json};

/// A document with two mixes; the fields that the table needs.
fn document() -> Value {
    let figures = |mix: &str, policy: &str, throughput: f64, failed: u32| {
        json!({"mix": mix, "policy": policy, "runs": 1, "makespan_s": 100.0 / throughput, "throughput_over_sa": throughput,
            "turnaround_over_sa": throughput + 1.0, "jobs": 16, "failed": failed, "bound_over_sa": 5.0, "turnaround_bound_over_sa": 6.0,
            "efficiency": throughput / 5.0, "kernel_slowdown": 1.02, "at_once": 16})
    };
    json!({
        "version": 1,
        "machine": {"software": false, "gpus": [{"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}], "driver": "580.1", "cores": 32},
        "commit": "0123456789abcdef", "settings": {"seed": 1, "capacity_bytes": 68719476736_u64, "ballast": true},
        "mixes": [{"name": "W1"}, {"name": "W2"}],
        "figures": [figures("W1", "sa", 1.0, 0), figures("W1", "cg:4", 2.5, 3), figures("W1", "mgb", 2.0, 0),
            figures("W2", "sa", 1.0, 0), figures("W2", "cg:4", 2.5, 0), figures("W2", "mgb", 4.5, 0)],
    })
}

fn table(arguments: &[&str]) -> Ended {
    tool("tools/bench_table.py", arguments)
}

fn picture(arguments: &[&str]) -> Ended {
    tool("tools/gain_picture.py", arguments)
}

fn tool(script: &str, arguments: &[&str]) -> Ended {
    let script = repository().join(script);
    let script = script.to_str().expect("paths of tests are UTF-8");
    run(&mut command("python3", &[&[script], arguments].concat()))
}

#[test]
fn the_table_says_what_the_document_says() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("results.json");
    fs::write(&file, document().to_string()).expect("a temporary folder can be written");
    let file = file.to_str().expect("paths of tests are UTF-8");
    // The same node at another commit goes into the same table, a larger node has its own before it.
    let mut later = document();
    later["commit"] = json!("fedcba9876543210");
    later["figures"] = json!([{"mix": "train", "policy": "mgb", "runs": 1, "makespan_s": 9.0, "throughput_over_sa": null,
        "turnaround_over_sa": null, "jobs": 8, "failed": 0, "bound_over_sa": null, "efficiency": 0.5, "kernel_slowdown": null,
        "at_once": 8}]);
    let mut larger = document();
    larger["machine"]["gpus"] =
        json!([{"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}]);
    let others = [("later.json", later), ("larger.json", larger)].map(|(name, document)| {
        let file = folder.path().join(name);
        fs::write(&file, document.to_string()).expect("a temporary folder can be written");
        file
    });
    let [later, larger] = [0, 1].map(|at: usize| others[at].to_str().expect("paths of tests are UTF-8"));
    // Jobs failed under cg:4: no ratio of it counts, nor any mean.
    insta::assert_snapshot!(table(&[file, later, larger]).success());
    let printed = table(&[file]).success();

    let page = folder.path().join("PAGE.md");
    let marks = "a\n<!-- begin of mgb bench's table -->\nold\n<!-- end of mgb bench's table -->\nb\n";
    fs::write(&page, marks).expect("a temporary folder can be written");
    let page = page.to_str().expect("paths of tests are UTF-8");
    assert_eq!(table(&["--check", page, file]).code(), 1);
    table(&["--write", page, file]).success();
    table(&["--check", page, file]).success();
    let written = fs::read_to_string(page).expect("it was written");
    assert!(written.starts_with("a\n<!-- begin") && written.ends_with("-->\nb\n"));
    assert!(written.contains(printed.trim_end()), "{written}");
}

#[test]
fn the_picture_leaves_failed_runs_hollow() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("results.json");
    let mut measured = document();
    let figures = measured["figures"]
        .as_array_mut()
        .expect("a document has figures");
    for figure in figures.iter_mut().filter(|figure| figure["policy"] == "mgb") {
        figure["policy"] = json!("mgb -j auto");
    }
    fs::write(&file, measured.to_string()).expect("a temporary folder can be written");
    let file = file.to_str().expect("paths of tests are UTF-8");
    let drawn = picture(&[file]).success();
    // cg:4 lost three jobs in W1 and none in W2.
    assert_eq!(drawn.matches(">3 ✗<").count(), 1, "{drawn}");
    assert_eq!(drawn.matches(">2.5<").count(), 1, "{drawn}");
    assert!(drawn.contains(">4.5<") && drawn.contains(">W2<"), "{drawn}");

    let kept = folder.path().join("gain.svg");
    fs::write(&kept, "old").expect("a temporary folder can be written");
    let kept = kept.to_str().expect("paths of tests are UTF-8");
    assert_eq!(picture(&["--check", kept, file]).code(), 1);
    picture(&["--write", kept, file]).success();
    picture(&["--check", kept, file]).success();
}

/// The arguments that check a page against all kept documents.
fn check(page: &str) -> Vec<String> {
    let entries = fs::read_dir(repository().join("benches/results")).expect("results are kept");
    let files = entries.map(|entry| entry.expect("the folder can be read").path());
    let documents = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let text = |path: PathBuf| {
        path.into_os_string()
            .into_string()
            .expect("paths of tests are UTF-8")
    };
    ["--check".to_owned(), text(repository().join(page))]
        .into_iter()
        .chain(documents.map(text))
        .collect()
}

#[test]
fn the_kept_table_is_the_measured_one() {
    let arguments = check("BENCHMARKING.md");
    table(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).success();
}

#[test]
fn the_kept_picture_is_the_measured_one() {
    let arguments = check("docs/gain.svg");
    picture(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).success();
}
