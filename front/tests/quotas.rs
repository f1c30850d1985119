//! Programs that were not rebuilt and whose user may not have all that they ask for, on software GPUs.

mod common;

use std::fs;

use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;

use common::{folder, on, program};

/// A node where the user who runs the tests may have no more than this.
fn node(devices: &str, quota: &str) -> PrivateNode {
    let mut node = PrivateNode::without_mgbd(devices);
    let uid = rustix::process::geteuid().as_raw();
    let file = node.write("quotas.toml", &format!("[users.{uid}]\n{quota}\n"));
    node.start_mgbd_with("mgb", &["--quotas", file.to_str().expect("a path of ours")]);
    node
}

#[test]
fn what_is_beyond_the_quota_is_as_where_the_gpu_is_full() {
    let program = program("holds.c", &folder("quotas-bytes"));
    let node = node("1x128MiB", "bytes = \"40MiB\"");
    let holds = |mib| run(&mut on(&node, &program, &["alloc", "1", mib, "1"]));
    let fits = holds("16");
    assert_eq!(fits.code(), 0, "{fits:?}");
    let over = holds("64");
    assert_ne!(over.code(), 0);
    assert!(
        over.stdout.starts_with("cuMemAlloc(&address, bytes): 2,"),
        "{over:?}"
    );
    assert!(
        over.stderr
            .contains("its user may have 40.0 MiB at once (`mgb quota`)"),
        "{over:?}"
    );
    node.wait_until_empty();
}

#[test]
fn who_may_have_nothing_gets_no_device_and_does_not_run_beside() {
    let program = program("holds.c", &folder("quotas-none"));
    let node = node("1x128MiB", "tasks = 0");
    let locked_out = run(&mut on(&node, &program, &["alloc", "1", "16", "1"]));
    assert_ne!(locked_out.code(), 0);
    assert!(locked_out.stdout.starts_with("cuInit(0): 100,"), "{locked_out:?}");
    assert!(
        locked_out.stderr.contains("its user may have 0 tasks at once"),
        "{locked_out:?}"
    );
    fs::remove_file(node.folder().join("quotas.toml")).expect("it is ours");
    node.wait_until_empty();
}

#[test]
fn a_device_beyond_the_quota_has_no_memory() {
    let program = program("both.c", &folder("quotas-gpus"));
    for (quota, second) in [("gpus = 1", 2), ("gpus = 2", 0)] {
        let node = node("2x128MiB", quota);
        let ended = run(&mut on(&node, &program, &[]));
        assert_eq!(
            (ended.code(), ended.stdout),
            (0, format!("0\n{second}\n")),
            "{}",
            ended.stderr
        );
        let says = ended
            .stderr
            .contains("needs 2 GPUs; its user may have 1 GPU at once");
        assert_eq!(says, second != 0, "{}", ended.stderr);
        node.wait_until_empty();
    }
}
