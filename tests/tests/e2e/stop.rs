//! `mgb stop`: mgbd ends, programs go on.

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

#[test]
fn stop_says_who_still_runs_and_they_run_to_their_end() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let go = node.folder().join("go");
    let wait = format!("while ! test -e {}; do sleep 0.01; done; echo PASS", go.display());
    let runs = RunningProgram::start(&mut node.mgb(&["run", "--need", "40MiB", "sh", "-c", &wait]));
    wait::until("it holds its room", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    let vecadd = built::program("vecadd");
    let program = vecadd.to_str().expect("paths of tests are UTF-8");
    // 36 MiB.
    let mut command = node.mgb(&["run", program, "3000000"]);
    let waits = RunningProgram::start(command.env("MGB", "require"));
    wait::until("another waits", || (node.view().queue.len() == 1).then_some(()));
    let said = run(&mut node.mgb(&["stop"])).success();
    assert!(node.stop_mgbd().status.success());
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("mgbd (pid ") && lines[0].ends_with(") has ended"),
        "{said}"
    );
    assert_eq!(lines[1], "requests for room that waited, and fail: 1", "{said}");
    assert_eq!(
        lines[2],
        format!("these go on to their end: sh (pid {})", runs.pid()),
        "{said}"
    );
    let failed = waits.end();
    let wanted = format!(
        "mgbd ended before it gave the task room; see its log {}.log",
        node.socket().display()
    );
    assert!(
        !failed.status.success() && failed.stderr.contains(&wanted),
        "{failed:?}"
    );
    std::fs::write(go, "").expect("a file of the test's own");
    assert_eq!(runs.end().success(), "PASS\n");
    let none = run(&mut node.mgb(&["stop"])).success();
    assert!(none.starts_with("no mgbd runs"), "{none}");
}
