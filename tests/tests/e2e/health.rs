//! GPUs that fail by the driver's word are drained.

use std::io::Write;
use std::process::Command;

use mgb_probe::view::GpuView;
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;

/// A node of two GPUs: of the second the driver says what stands in the file `ill`, and it has lost the first
/// while there is a file `lost`.
fn node(options: &[&str]) -> PrivateNode {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    start(&mut node, options);
    node
}

fn start(node: &mut PrivateNode, options: &[&str]) {
    let mut mgbd = mgbd(node, options);
    node.start_mgbd_as(&mut mgbd);
}

fn mgbd(node: &PrivateNode, options: &[&str]) -> Command {
    let folder = node.folder().display();
    let fails = format!("device:0@file={folder}/lost,health:1@file={folder}/ill");
    let mut mgbd = node.mgbd(options);
    mgbd.env("SOFTGPU_FAIL", fails);
    mgbd
}

/// One more line of the driver's.
fn says(node: &PrivateNode, line: &str) {
    let path = node.folder().join("ill");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.expect("a temporary folder can be written");
    // At once: a line that is not all there is none.
    let line = format!("{line}\n");
    file.write_all(line.as_bytes())
        .expect("a temporary folder can be written");
}

/// The second GPU, once this is said of it.
fn fails(node: &PrivateNode, what: &str) -> GpuView {
    wait::until(what, || {
        let gpu = node.view().gpus.swap_remove(1);
        gpu.fails.as_ref()?.contains(what).then_some(gpu)
    })
}

fn is_drained_for(node: &PrivateNode, what: &str) -> String {
    let gpu = fails(node, what);
    assert!(gpu.drained, "{gpu:?}");
    gpu.fails.unwrap_or_default()
}

fn use_again(node: &PrivateNode) {
    let said = run(&mut node.mgb(&["drain", "1", "--end"])).success();
    assert_eq!(said, "GPU 1 is used again\n");
    wait::until("it is used again", || {
        let gpu = &node.view().gpus[1];
        (!gpu.drained && gpu.fails.is_none()).then_some(())
    });
}

fn phases(node: &PrivateNode, arguments: &[&str]) -> RunningProgram {
    let mut command = node.command(built::program("phases"), arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
}

#[test]
fn a_gpu_that_fails_is_drained_until_a_person_ends_that() {
    let mut node = node(&[]);
    // What programs cause comes before, so that it was heard when the other one is.
    for xid in [13, 31, 43, 45, 68, 69, 109] {
        says(&node, &format!("xid {xid}"));
    }
    says(&node, "xid 79");
    assert_eq!(
        is_drained_for(&node, "Xid 79"),
        "Xid 79: it has fallen off the bus"
    );
    let shown = run(&mut node.mgb(&["status"])).success();
    let line = "GPU 1 fails: Xid 79: it has fallen off the bus; `mgb drain 1 --end` has it used again\n";
    assert!(
        shown.contains("GPU 1 is drained\n") && shown.contains(line),
        "{shown}"
    );
    let json = run(&mut node.mgb(&["status", "--json"])).success();
    assert!(json.contains("Xid 79: it has fallen off the bus"), "{json}");
    is_right(phases(&node, &["20", "1", "1", "wait", "1", "8"]));

    // The next mgbd knows it, and that a person has ended it.
    node.replace_mgbd(Signal::KILL);
    is_drained_for(&node, "Xid 79");
    use_again(&node);
    says(&node, "pending");
    is_drained_for(&node, "rows of its memory wait");
    use_again(&node);
    node.replace_mgbd(Signal::KILL);
    // It holds still, and was known: only what is new drains the GPU again.
    says(&node, "ecc 2");
    assert_eq!(is_drained_for(&node, "ECC errors"), "uncorrectable ECC errors: 2");
    use_again(&node);
    says(&node, "double-bit");
    assert_eq!(is_drained_for(&node, "double-bit"), "a double-bit ECC error");
    assert!(!node.view().gpus[0].drained);
}

#[test]
fn what_holds_as_mgbd_starts_drains_but_for_old_counts_of_errors() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    says(&node, "xid 79");
    says(&node, "ecc 3");
    says(&node, "failure");
    start(&mut node, &["--no-restart"]);
    assert_eq!(is_drained_for(&node, "row remapping"), "row remapping has failed");
    // And a person's word holds for that, too.
    use_again(&node);
    says(&node, "ecc 4");
    assert_eq!(is_drained_for(&node, "ECC errors"), "uncorrectable ECC errors: 4");
    node.stop_mgbd();
}

#[test]
fn programs_that_are_there_end_well() {
    let node = node(&[]);
    let both = [(); 2].map(|()| phases(&node, &["40", "4", "50", "wait", "10", "8"]));
    wait::until("each has a GPU", || {
        let tasks = node.view().tasks;
        let is_on = |gpu| {
            tasks
                .iter()
                .any(|task| task.gpu == gpu && task.held_bytes >= 40 << 20)
        };
        (is_on(0) && is_on(1)).then_some(())
    });
    says(&node, "xid 95");
    is_drained_for(&node, "Xid 95");
    both.into_iter().for_each(is_right);
    node.wait_until_empty();
}

#[test]
fn a_gpu_that_is_lost_hides_no_failure_of_others() {
    let node = node(&[]);
    let lost = node.folder().join("lost");
    // First this one's event comes, so that both are waited for.
    says(&node, "xid 119");
    is_drained_for(&node, "Xid 119");
    use_again(&node);
    std::fs::write(&lost, "").expect("a temporary folder can be written");
    says(&node, "xid 95");
    is_drained_for(&node, "Xid 95");
    use_again(&node);
    std::fs::remove_file(&lost).expect("it is there");
    says(&node, "xid 140");
    is_drained_for(&node, "Xid 140");
}

#[test]
fn the_log_says_once_why_and_nothing_of_what_programs_cause() {
    let mut node = node(&["--no-restart"]);
    for _ in 0..3 {
        says(&node, "xid 31");
        says(&node, "xid 64");
    }
    // After those, and so heard after them.
    says(&node, "xid 62");
    is_drained_for(&node, "Xid 62");
    let said = node.stop_mgbd().stderr;
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    let counts = ["a GPU fails", "Xid 64", "Xid 62", "Xid 31"].map(count);
    assert_eq!(counts, [2, 1, 1, 0], "{said}");
}

#[test]
fn a_driver_without_events_is_asked_for_the_rest() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    says(&node, "no-events");
    start(&mut node, &["--no-restart"]);
    says(&node, "xid 79");
    for (line, what) in [
        ("pending", "wait to be remapped"),
        ("failure", "has failed"),
        ("ecc 1", "ECC errors"),
    ] {
        says(&node, line);
        let why = is_drained_for(&node, what);
        assert!(!why.contains("Xid"), "{why}");
    }
    let said = node.stop_mgbd().stderr;
    let lines = said
        .lines()
        .filter(|line| line.contains("no GPU is drained for an Xid"));
    assert_eq!(lines.count(), 1, "{said}");
}

#[test]
fn who_does_not_want_it_goes_on_using_such_a_gpu_and_sees_why_he_should_not() {
    let mut node = node(&["--no-health-drain", "--no-restart"]);
    says(&node, "xid 79");
    says(&node, "failure");
    fails(&node, "Xid 79");
    let gpu = fails(&node, "row remapping has failed");
    assert!(!gpu.drained, "{gpu:?}");
    let shown = run(&mut node.mgb(&["status"])).success();
    assert!(shown.contains("it is used on (--no-health-drain)"), "{shown}");
    // Each has a GPU, where that one is used.
    let both = [(); 2].map(|()| phases(&node, &["40", "1", "50", "wait", "10", "8"]));
    wait::until("each has a GPU", || {
        let mut gpus: Vec<u32> = node.view().tasks.iter().map(|task| task.gpu).collect();
        gpus.sort_unstable();
        (gpus == [0, 1]).then_some(())
    });
    both.into_iter().for_each(is_right);
    use_again(&node);
    let said = node.stop_mgbd().stderr;
    assert!(said.contains("a GPU fails, and is used on"), "{said}");
}

#[test]
fn an_mgbd_that_nobody_needs_ends_though_it_watches() {
    let node = PrivateNode::without_mgbd("2x64MiB");
    says(&node, "ecc 3");
    let ended = run(&mut mgbd(&node, &["--no-restart", "--idle-exit", "2"]));
    assert!(
        ended.code() == 0 && ended.stderr.contains("nobody needed mgbd for a while"),
        "{ended:?}"
    );
}
