//! What mgbd does where the machine has nothing left: it says what is missing, or goes on without it. Only
//! root can make such a place; elsewhere these tests say so and are left out.

use std::process::Command;

use mgb_tests::built;
use mgb_tests::node::Node;
use mgb_tests::prefix::bin;
use mgb_tests::process::{Ended, run};

/// Runs a script in a mount namespace of its own; `None`: only root can. It has mgbd as `$MGBD`, mgb as
/// `$COMMAND` and a program that was built with MGB as `$PROGRAM`.
fn in_own_mounts(node: &Node, script: &str) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount");
        return None;
    }
    let mut command: Command = node.command("unshare", &["-m", "sh", "-c", script]);
    command.env("MGBD", bin("mgbd")).env("COMMAND", bin("mgb"));
    command.env("PROGRAM", built::program("vecadd"));
    Some(run(&mut command))
}

#[test]
fn without_room_for_a_view_it_says_so_and_does_not_start() {
    let node = Node::without_mgbd("1x64MiB");
    let script = "mount -t tmpfs -o size=64k none /dev/shm && exec timeout 20 $MGBD";
    if let Some(ended) = in_own_mounts(&node, script) {
        ended.failure(&["failed to make the node view", "is /dev/shm there and writable?"]);
    }
}

#[test]
fn with_a_full_disk_it_says_so_and_does_not_start() {
    let node = Node::without_mgbd("1x64MiB");
    let script = "mkdir full && mount -t tmpfs -o size=16k none full && cat /dev/zero > full/fill
        MGB_SOCKET=$PWD/full/mgbd.sock exec timeout 20 $MGBD";
    if let Some(ended) = in_own_mounts(&node, script) {
        ended.failure(&["full/mgbd.sock", "No space left on device"]);
    }
}

#[test]
fn a_disk_that_fills_up_under_it_harms_nobody() {
    let node = Node::without_mgbd("1x64MiB");
    // Killed, the next one has no room for its note, nor for what it remembers.
    let script =
        "mkdir full && mount -t tmpfs -o size=256k none full && export MGB_SOCKET=$PWD/full/mgbd.sock
        $MGBD > log 2>&1 & sleep 1
        export MGB_SOCKET=$PWD/full/mgbd.sock
        MGB=require $PROGRAM 1000 || exit 1
        cat /dev/zero > full/fill 2> errors
        MGB=require $PROGRAM 1000 || exit 2
        kill -9 $!
        MGB=require $PROGRAM 1000 || exit 3
        $COMMAND stop || exit 4
        cat log";
    if let Some(ended) = in_own_mounts(&node, script) {
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert_eq!(ended.stdout.matches("PASS").count(), 3, "{ended:?}");
    }
}

#[test]
fn few_descriptors_are_enough_for_few_programs() {
    let node = Node::without_mgbd("1x64MiB");
    let script = "ulimit -n 300; $MGBD > log 2>&1 & sleep 1
        for one in 1 2 3 4 5 6 7 8; do MGB=require $PROGRAM 1000; done
        $COMMAND stop; cat log";
    if let Some(ended) = in_own_mounts(&node, script) {
        assert_eq!(ended.stdout.matches("PASS").count(), 8, "{ended:?}");
    }
}
