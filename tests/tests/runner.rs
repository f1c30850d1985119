//! `tools/test.py`, with a cargo that builds nothing and a test binary that is a script.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mgb_tests::prefix::repository;
use mgb_tests::process::{Ended, command, run};

/// As libtest answers: one test passes, one fails, one crashes, one finds out whether it is alone.
const BINARY: &str = r#"#!/bin/sh
case "$*" in
--list*) printf '%s: test\n' good bad crash alone ;;
*good*) touch running; sleep 0.2; rm running; echo 'left out: no moon'
    echo 'test result: ok. 1 passed; 0 failed; 0 ignored' ;;
*bad*) echo 'said by bad'; echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101 ;;
*crash*) kill -SEGV $$ ;;
*alone*) [ ! -e running ] && echo 'test result: ok. 1 passed; 0 failed; 0 ignored' ;;
esac
"#;

const PLAN: &str = "long = [\"tests::made_up::good\"]\nalone = [\"tests::made_up::alone\"]\n";

fn script(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).expect("a temporary folder can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    path.to_owned()
}

fn play(plan: &str, arguments: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // Tests run in their package's folder: this one's, of the temporary folder, may be written.
    let binary = script(
        &folder.path().join("binary"),
        &BINARY.replace("running", &format!("{}/running", folder.path().display())),
    );
    let artifact = serde_json::json!({
        "reason": "compiler-artifact", "profile": {"test": true}, "executable": binary,
        "manifest_path": repository().join("tests/Cargo.toml"),
        "target": {"name": "made_up", "kind": ["test"]},
    });
    let cargo = script(
        &folder.path().join("cargo"),
        &format!("#!/bin/sh\necho '{artifact}'\n"),
    );
    let plan = script(&folder.path().join("plan.toml"), plan);
    let tool = repository().join("tools/test.py");
    let mut command = command("python3", &["-B"]);
    command
        .arg(tool)
        .arg("--plan")
        .arg(plan)
        .args(arguments)
        .env("CARGO", cargo);
    run(&mut command)
}

#[test]
fn failures_and_crashes_are_counted_and_shown() {
    let ended = play(PLAN, &[]);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert_eq!(ended.stdout.lines().last(), Some("2 passed, 2 failed"));
    for words in [
        "said by bad",
        "failed: tests::made_up::bad",
        "failed: tests::made_up::crash",
        "exit code -11",
        "left out: no moon",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    let all = play(PLAN, &["good", "alone"]).success();
    assert_eq!(all.lines().last(), Some("2 passed, 0 failed"));
    let quick = play(PLAN, &["--quick"]).stdout;
    assert_eq!(quick.lines().last(), Some("0 passed, 2 failed"));
}

#[test]
fn a_plan_of_tests_that_are_gone_is_refused() {
    let ended = play(&PLAN.replace("good", "gone"), &[]);
    ended.failure(&["tests::made_up::gone"]);
}
