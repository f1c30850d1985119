//! What mgbd's log says of people's orders.

use std::fs;
use std::path::PathBuf;

use mgb_tests::process::run;
use mgb_tests::wait;
use rustix::process::{Pid, Signal, kill_process};

use crate::users::{SharedNode, USERS, is_right};

#[test]
fn each_order_of_a_person_has_a_line_in_the_log() {
    let [first, second] = USERS;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (log, quotas): (PathBuf, PathBuf) = (folder.path().join("log"), folder.path().join("quotas.toml"));
    fs::write(&quotas, "[default]\ntasks = 9\n").unwrap();
    let file = |path: &PathBuf| path.to_str().expect("it is UTF-8").to_owned();
    let options = ["--serve", "all", "--log", &file(&log), "--quotas", &file(&quotas)];
    let Some(shared) = SharedNode::start("2x64MiB", &options) else {
        return;
    };
    let said = |line: &str| {
        wait::until("the log says it", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            log.lines()
                .any(|own| own.contains("audit order=") && own.contains(line))
                .then_some(())
        });
    };
    let program = shared.phases(first, "8", "2");
    let pid = program.pid();
    let order = |uid: u32, arguments: &[&str]| run(&mut shared.command(uid, "mgb", arguments));
    let (number, own) = (pid.to_string(), format!("of=\"process {pid}\" whose={first}"));
    order(second, &["suspend", "--no-wait", &number]).failure(&["another user"]);
    said(&format!("order=\"suspend\" uid={second}"));
    said(&format!(
        "command=\"mgb\" {own} outcome=\"refused: that belongs to another user\" administers=false"
    ));
    order(first, &["suspend", "--no-wait", &number]).success();
    said(&format!("{own} outcome=\"done\" administers=false"));
    order(0, &["resume", &number]).success();
    said(&format!("{own} outcome=\"done\" administers=true"));
    order(first, &["drain", "1"]).failure(&["only root"]);
    said("of=\"GPU 1\" outcome=\"refused: only root");
    order(0, &["drain", "--no-wait", "1"]).success();
    said("of=\"GPU 1\" outcome=\"done\" administers=true");
    fs::write(&quotas, "[default]\ntasks = \"x\"\n").unwrap();
    let mgbd = Pid::from_raw(shared.node.mgbd_pid() as i32).expect("it runs");
    kill_process(mgbd, Signal::HUP).expect("it can be told");
    said("order=\"reload\" outcome=");
    is_right(program);
}

#[test]
fn a_user_who_orders_on_and_on_fills_no_log_and_hides_nobody() {
    let [first, second] = USERS;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let log = folder.path().join("log");
    let options = ["--serve", "all", "--log", log.to_str().expect("it is UTF-8")];
    let Some(shared) = SharedNode::start("1x64MiB", &options) else {
        return;
    };
    for _ in 0..30 {
        run(&mut shared.command(first, "mgb", &["resume", "1"])).failure(&["mgbd knows no process"]);
    }
    run(&mut shared.command(second, "mgb", &["resume", "1"])).failure(&["mgbd knows no process"]);
    let lines = |uid: u32| {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let own = format!("audit order=\"resume\" uid={uid}");
        log.lines().filter(|line| line.contains(&own)).count()
    };
    wait::until("the second one's is there", || (lines(second) == 1).then_some(()));
    let of_first = lines(first);
    assert!((1..30).contains(&of_first), "{of_first}");
}
