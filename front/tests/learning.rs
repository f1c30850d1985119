//! What a program that was not rebuilt took is expected of it the next time.

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use mgb_tests::node::PrivateNode;
use mgb_tests::wait;

use common::{folder, program, view};

const MIB: u64 = 1 << 20;

/// A program that begins, and allocates when it is told to.
struct Late {
    child: Child,
    stdin: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Late {
    fn start(node: &PrivateNode, program: &Path, mib: &str) -> Late {
        let mut command = node.mgb(&["run", &program.display().to_string(), mib]);
        let command = command.env("MGB", "require").stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        Late {
            stdin: child.stdin.take().unwrap(),
            says: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    #[track_caller]
    fn says(&mut self, expected: &str) {
        assert_eq!(self.says.next().expect("it goes on").unwrap(), expected);
    }

    fn goes_on(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    fn ends(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

/// Runs it once, to its end.
fn learn(node: &PrivateNode, program: &Path, mib: &str, outcome: &str) {
    let mut late = Late::start(node, program, mib);
    late.says("begun");
    late.goes_on();
    late.says(outcome);
    late.ends();
    node.wait_until_empty();
}

#[test]
fn room_is_kept_for_what_a_program_took_before() {
    let late = program("late.c", &folder("late"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    learn(&node, &late, "40", "held");
    let mut first = Late::start(&node, &late, "40");
    first.says("begun");
    let task = view(&node).tasks[0].clone();
    assert_eq!((task.expected_bytes, task.held_bytes), (40 * MIB, 0), "{task:?}");
    let mut second = Late::start(&node, &late, "40");
    let waits = wait::until("the second waits to begin", || view(&node).queue.first().cloned());
    assert!(
        !waits.growth && waits.bytes == 0 && waits.expected_bytes == 40 * MIB,
        "{waits:?}"
    );
    first.goes_on();
    first.says("held");
    let seen = view(&node);
    let task = &seen.tasks[0];
    assert_eq!(
        (task.held_bytes, task.peak_bytes),
        (40 * MIB, 40 * MIB),
        "{task:?}"
    );
    assert_eq!(seen.queue.len(), 1, "{seen:?}");
    first.ends();
    second.says("begun");
    second.ends();
    node.wait_until_empty();
}

#[test]
fn nothing_is_kept_for_what_was_refused_or_not_asked_for() {
    let late = program("late.c", &folder("late-never"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (mib, outcome) in [("80", "refused"), ("0", "held")] {
        learn(&node, &late, mib, outcome);
        let mut both = [(); 2].map(|()| Late::start(&node, &late, mib));
        both.iter_mut().for_each(|late| late.says("begun"));
        assert!(view(&node).tasks.iter().all(|task| task.expected_bytes == 0));
        both.into_iter().for_each(Late::ends);
        node.wait_until_empty();
    }
}
