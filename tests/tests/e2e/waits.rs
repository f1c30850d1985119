//! `mgb run --need` waits: it says for what, and can be ended.

use std::fs::{self, File};

use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;
use mgb_tests::wait;
use rustix::process::Signal;

#[test]
fn who_waits_for_room_says_so_and_ends_by_a_signal() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let need = ["run", "--need", "40MiB", "sleep", "1000"];
    let _holds = RunningProgram::start(&mut node.mgb(&need));
    wait::until("it holds its room", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    for signal in [Signal::INT, Signal::TERM] {
        let file = node.folder().join("said");
        let stderr = File::create(&file).expect("the folder is the test's own");
        let waits = RunningProgram::start_with(&mut node.mgb(&need), stderr.into());
        let line = wait::until("it says what it waits for", || {
            let said = fs::read_to_string(&file).ok()?;
            said.split_once('\n').map(|(line, _)| line.to_owned())
        });
        let wanted = "mgb: waits for 40.0 MiB of GPU memory: `mgb status` says who has it";
        assert_eq!(line, wanted);
        waits.signal(signal);
        assert_ne!(waits.end().code(), 0);
        wait::until("nobody waits", || node.view().queue.is_empty().then_some(()));
    }
}
