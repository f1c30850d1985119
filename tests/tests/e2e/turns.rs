//! Turns at the driver: a program waits for its own before it initialises the driver or makes a context.

use mgb_probe::Client;
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;
use mgb_tests::wait;

/// As many as have it at once.
const OTHERS: usize = 4;

#[test]
fn a_program_waits_for_its_turn_at_the_driver() {
    let program = built::program("vecadd");
    // Alone: the others' turns end by time, and it is to ask before.
    let node = PrivateNode::start_alone("1x64MiB", "mgb");
    let others: Vec<Client> = (0..OTHERS)
        .map(|_| Client::connect(&node.socket()).expect("mgbd takes clients"))
        .collect();
    let turns: Vec<_> = others.iter().map(|client| client.turn(false)).collect();
    let mut command = node.command(program, &["1000"]);
    let mut program = RunningProgram::start(command.env("MGB", "require"));
    wait::until("it waits for its turn", || {
        (node.view().starting == 1).then_some(())
    });
    assert!(program.runs());
    drop(turns);
    program.end().success();
    drop(others);
    node.wait_until_empty();
}
