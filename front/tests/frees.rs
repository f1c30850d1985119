//! Memory that the program frees at a moment at which nobody may wait for the GPU.

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use mgb_tests::node::PrivateNode;
use mgb_tests::process::RunningProgram;
use mgb_tests::wait;

use common::{folder, on, program};

/// A program that says what it has done, and goes on where it is told to.
struct Told {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Told {
    fn start(command: &mut Command) -> Told {
        command
            .env("MGB", "require")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let said = BufReader::new(child.stdout.take().expect("is piped")).lines();
        Told { child, said }
    }

    fn says(&mut self, line: &str) {
        let said = self.said.next().map(|line| line.expect("text"));
        assert_eq!(said.as_deref(), Some(line));
    }

    /// The program has allocated, and mgbd has taken in how much: the program charges it, and says so later.
    fn allocated(&mut self, node: &PrivateNode, bytes: u64) {
        self.says("allocated");
        wait::until("mgbd knows of its memory", || {
            node.view()
                .tasks
                .iter()
                .any(|task| task.reserved_bytes >= bytes)
                .then_some(())
        });
        self.go_on();
    }

    fn go_on(&mut self) {
        use std::io::Write;
        let input = self.child.stdin.as_mut().expect("is piped");
        input.write_all(b"\n").expect("it reads");
        self.says("");
        self.says("");
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.says("PASS");
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn frees(test: &str) -> PathBuf {
    program("frees.c", &folder(test))
}

/// mgbd has no more than so many bytes reserved for the one program on the node.
fn has_reserved(node: &PrivateNode, most: u64) -> bool {
    let view = node.view();
    view.tasks.len() == 1 && view.tasks[0].reserved_bytes <= most
}

/// A capture goes on while memory is freed, in whichever thread; the memory is given back as soon as the
/// capture has ended, without another call of the program.
#[test]
fn a_capture_does_not_end_by_a_free() {
    let frees = frees("frees-capture");
    let node = PrivateNode::start("1x64MiB", "mgb");
    for arguments in [
        &["capture", "0", "32"][..],
        &["capture", "1", "32"],
        &["capture", "2", "32"],
        &["own", "32"],
    ] {
        let mut told = Told::start(&mut on(&node, &frees, arguments));
        told.allocated(&node, 32 << 20);
        told.says("captured");
        wait::until("the memory is given back", || {
            has_reserved(&node, 8 << 20).then_some(())
        });
        told.end();
    }
    node.wait_until_empty();
}

/// Memory of `cuMemAlloc` that is freed in the order of a stream is there until the stream has come so far:
/// the call waits for nothing.
#[test]
fn a_free_in_stream_order_waits_for_nothing() {
    let frees = frees("frees-order");
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut told = Told::start(&mut on(&node, &frees, &["order", "32"]));
    told.allocated(&node, 32 << 20);
    told.says("given");
    assert!(!has_reserved(&node, 8 << 20), "the stream has not come so far");
    told.go_on();
    told.says("done");
    wait::until("the memory is given back", || {
        has_reserved(&node, 8 << 20).then_some(())
    });
    told.end();
    node.wait_until_empty();
}

/// A program does not wait for room that another thread of its own gives it.
#[test]
fn what_another_thread_frees_ends_a_wait() {
    let folder = folder("frees-grows");
    let (frees, holds) = (program("frees.c", &folder), program("holds.c", &folder));
    let mut node = PrivateNode::without_mgbd("1x96MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let mut other =
        RunningProgram::start(on(&node, &holds, &["alloc", "1", "40", "60000"]).env("MGB", "require"));
    wait::until("the other has its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    let mut told = Told::start(&mut on(&node, &frees, &["grows", "28"]));
    told.allocated(&node, 28 << 20);
    told.says("grown");
    told.end();
    assert!(other.runs(), "it waited for the other");
}
