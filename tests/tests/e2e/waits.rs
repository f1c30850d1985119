//! `mgb run --need` waits: it says for what, and can be ended.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use mgb_tests::node::Node;
use mgb_tests::process::Running;
use mgb_tests::wait;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn who_waits_for_room_says_so_and_ends_by_a_signal() {
    let node = Node::start("1x64MiB", "mgb");
    let need = ["run", "--need", "40MiB", "sleep", "1000"];
    let _holds = Running::start(&mut node.mgb(&need));
    wait::until("it holds its room", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    for signal in [Signal::INT, Signal::TERM] {
        let mut command: Command = node.mgb(&need);
        let mut waits = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(waits.stderr.take().expect("is piped")).lines();
        let line = said.next().expect("it says something").expect("it is text");
        let wanted = "mgb: waits for 40.0 MiB of GPU memory: `mgb status` says who has it";
        assert_eq!(line, wanted);
        let pid = Pid::from_child(&waits);
        kill_process(pid, signal).expect("it runs");
        let ended = waits.wait().expect("it is ours");
        assert!(!ended.success());
        wait::until("nobody waits", || node.view().queue.is_empty().then_some(()));
    }
}
