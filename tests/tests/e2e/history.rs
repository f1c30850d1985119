//! `mgb history`: what programs have taken of the GPUs, kept over restarts of mgbd, and who sees it.

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use serde_json::Value;

use crate::users::{SharedNode, USERS, is_right};

/// MiB, rounds, milliseconds of each host phase, its kind, steps and blocks of each kernel.
const PHASES: [&str; 6] = ["16", "5", "100", "wait", "10", "8"];

/// What the rows of `mgb history --json` have together.
fn sum(rows: &Value, what: &str) -> f64 {
    let rows = rows.as_array().expect("a list").iter();
    rows.map(|row| row[what].as_f64().expect("a number")).sum()
}

/// What is written once they have held GPUs for so many seconds.
fn history(node: &PrivateNode, held: f64) -> Value {
    let mut rows = Value::Null;
    wait::until("all is written", || {
        // Before anything was, there is no folder.
        let said = run(&mut node.mgb(&["history", "--json"]));
        rows = serde_json::from_str(&said.stdout).unwrap_or_default();
        (rows.is_array() && sum(&rows, "held_seconds") >= held).then_some(())
    });
    rows
}

#[test]
fn what_programs_took_is_kept_from_one_mgbd_to_the_next() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let program = built::program("phases");
    let two = |node: &PrivateNode| {
        let start = || RunningProgram::start(node.command(&program, &PHASES).env("MGB", "require"));
        [start(), start()].into_iter().for_each(is_right);
    };
    two(&node);
    // Each pauses five times at least.
    let rows = history(&node, 1.0);
    assert_eq!(sum(&rows, "processes"), 2.0, "{rows}");
    let [held, gpu, saved] = ["held_seconds", "gpu_seconds", "saved_seconds"].map(|what| sum(&rows, what));
    assert!(gpu <= held && saved <= held / 2.0 && saved > 0.0, "{rows}");
    let bytes = sum(&rows, "memory_byte_seconds");
    let held_bytes = f64::from(16 << 20) * held;
    assert!((0.8 * held_bytes..1.2 * held_bytes).contains(&bytes), "{rows}");

    node.kill_mgbd();
    node.start_mgbd("mgb");
    two(&node);
    let after = history(&node, held + 1.0);
    assert_eq!(sum(&after, "processes"), 4.0, "{after}");

    let shown = run(&mut node.mgb(&["history"])).success();
    assert!(
        shown.contains("phases.cu:main") && shown.contains("\nall "),
        "{shown}"
    );
    let csv = run(&mut node.mgb(&["history", "--csv"])).success();
    assert!(
        csv.lines().count() == 2 && csv.starts_with("day,uid,user,program,"),
        "{csv}"
    );
    let nothing = run(&mut node.mgb(&["history", "--folder", "none"]));
    assert!(
        nothing.code() == 2 && nothing.stderr.contains("--folder"),
        "{nothing:?}"
    );
}

#[test]
fn each_user_sees_his_own_part() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    for uid in USERS {
        is_right(shared.phases(uid, "8", "2"));
    }
    history(&shared.node, 0.4);
    for uid in USERS {
        let said = run(&mut shared.command(uid, "mgb", &["history", "--json"])).success();
        let rows: Value = serde_json::from_str(&said).expect("it is JSON");
        let uids: Vec<&Value> = rows
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| &row["uid"])
            .collect();
        assert_eq!(uids, [&Value::from(uid)], "{rows}");
    }
}
