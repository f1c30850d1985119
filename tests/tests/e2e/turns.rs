//! Turns at the driver: a program waits for its own before it initialises the driver or makes a context.

use std::thread;
use std::time::Duration;

use mgb_probe::Client;
use mgb_tests::built;
use mgb_tests::node::Node;
use mgb_tests::process::Running;

/// How long others have the driver: less than mgbd lets them.
const HELD: Duration = Duration::from_millis(800);
/// As many as have it at once.
const OTHERS: usize = 4;

#[test]
fn a_program_waits_for_its_turn_at_the_driver() {
    let program = built::program("vecadd");
    let node = Node::start("1x64MiB", "mgb");
    let others: Vec<Client> = (0..OTHERS)
        .map(|_| Client::connect(&node.socket()).expect("mgbd takes clients"))
        .collect();
    let turns: Vec<_> = others.iter().map(|client| client.turn(false)).collect();
    let mut command = node.command(program, &["1000"]);
    let mut program = Running::start(command.env("MGB", "require"));
    thread::sleep(HELD);
    assert!(program.runs(), "it had its turn beside {OTHERS} others");
    assert_eq!(node.view().starting, 1);
    drop(turns);
    program.end().success();
    drop(others);
    node.wait_until_empty();
}
