//! Off means off: without an mgbd a program runs natively with one line of notice; `MGB=off` is silent and
//! `MGB=require` insists.

use mgb_tests::built;
use mgb_tests::mute::Mute;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;

#[test]
fn one_line_of_notice_without_mgbd() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let ended = run(&mut node.command(built::program("twotasks"), &["1000", "1000"]));
    let notices = ended.stderr.lines().count();
    assert_eq!(notices, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("mgbd"), "{}", ended.stderr);
    assert_eq!(ended.success(), "twotasks: n=1000 m=1000 PASS\n");
}

/// A program, a command and mgbd itself do their work where what they say cannot be written.
#[test]
fn lines_that_cannot_be_written_are_lost() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    for mute in Mute::ALL {
        let ended = mute.run(&mut node.command(built::program("twotasks"), &["1000", "1000"]));
        assert_eq!(ended.success(), "twotasks: n=1000 m=1000 PASS\n", "{mute:?}");
    }
    let heard = run(&mut node.mgb(&["status"])).code();
    for mute in [Mute::Full, Mute::Closed, Mute::Broken] {
        let ended = mute.run(&mut node.mgb(&["status"]));
        assert_eq!(ended.code(), heard, "{mute:?}: {ended:?}");
    }
    let mgbd = node.mgbd(&["--policy", "mgb"]);
    let mut full = std::process::Command::new("sh");
    full.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"])
        .arg(mgbd.get_program())
        .args(mgbd.get_args())
        .envs(mgbd.get_envs().filter_map(|(name, value)| Some((name, value?))));
    node.start_mgbd_as(&mut full);
    let ended = run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "require"));
    ended.success();
}

#[test]
fn off_is_silent_and_leaves_mgbd_alone() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "off"));
    assert_eq!(ended.stderr, "");
    ended.success();
}

#[test]
fn require_insists() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let ended = run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "require"));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended.failure(&["mgbd", "mgbd.sock"]);
}

#[test]
fn a_dead_socket_is_no_mgbd() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    // The holder would start another one for whoever comes.
    node.kill_holder();
    node.kill_mgbd();
    assert!(node.socket().exists(), "a killed mgbd leaves its socket behind");
    let ended = run(&mut node.command(built::program("vecadd"), &["1000"]));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    ended.success();
}
