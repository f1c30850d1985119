//! What the front says in a program whose standard error takes nothing.

mod common;

use mgb_tests::mute::Mute;
use mgb_tests::node::PrivateNode;

use common::{folder, on, program};

/// An allocation that is refused with a line of notice is refused in the same way where nobody can read that.
#[test]
fn a_notice_that_cannot_be_written_is_lost() {
    let holds = program("holds.c", &folder("mute"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    for mute in Mute::ALL {
        let mut command = on(&node, &holds, &["alloc", "1", "80", "0"]);
        let ended = mute.run(command.env("MGB", "require"));
        assert_eq!(ended.code(), 1, "{mute:?}: {ended:?}");
        assert!(
            ended.stdout.contains("cuMemAlloc") && ended.stdout.contains(": 2,"),
            "{mute:?}: {ended:?}"
        );
    }
    node.wait_until_empty();
}
