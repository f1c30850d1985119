//! What mgbd writes to and nobody reads: its standard error, systemd's socket. It serves, and ends.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use mgb_probe::Client;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{built, wait};
use rustix::process::Signal;

/// Writes until nothing more is taken.
fn fill(mut write: impl FnMut() -> std::io::Result<usize>) {
    loop {
        match write() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A pipe that takes nothing more, and blocks who writes to it.
fn full_pipe() -> (OwnedFd, File) {
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&write, true).expect("it is a pipe");
    let mut file = File::from(write);
    // Single bytes, too: it is full to the last one.
    for piece in [&[b'x'; 4096][..], b"x"] {
        fill(|| file.write(piece));
    }
    rustix::io::ioctl_fionbio(&file, false).expect("it is a pipe");
    (read, file)
}

fn is_served(node: &PrivateNode) {
    let said = run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "require"))
    .success();
    assert!(said.contains("PASS"), "{said}");
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_waiting() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    built::program("vecadd");
    let (read, write) = full_pipe();
    let mgbd = RunningProgram::start_with(
        &mut node.mgbd(&[]),
        Stdio::from(write.try_clone().expect("a file")),
    );
    wait::until("mgbd serves", || Client::observe(&node.socket()).ok().map(drop));
    is_served(&node);
    mgbd.signal(Signal::TERM);
    // Nor does its end wait.
    assert_eq!(mgbd.end().code(), 0);
    drop((read, write));
}

#[test]
fn who_reads_the_log_late_reads_all_of_it() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    built::program("vecadd");
    let (read, write) = full_pipe();
    let mgbd = RunningProgram::start_with(&mut node.mgbd(&[]), Stdio::from(write));
    wait::until("mgbd serves", || Client::observe(&node.socket()).ok().map(drop));
    is_served(&node);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).expect("it is text");
        text
    });
    mgbd.signal(Signal::TERM);
    assert_eq!(mgbd.end().code(), 0);
    wait::until("the holder ends", || node.holder_pid().is_none().then_some(()));
    let text = reader.join().expect("it is read");
    for line in ["mgbd is ready", "told to stop"] {
        assert!(
            text.contains(line),
            "no '{line}' in {}",
            text.trim_start_matches('x')
        );
    }
}

#[test]
fn systemd_that_reads_nothing_keeps_nobody_waiting_and_hears_it_later() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    built::program("vecadd");
    let path = node.folder().join("notify");
    let systemd = UnixDatagram::bind(&path).expect("a socket");
    let others = UnixDatagram::unbound().expect("a socket");
    others.connect(&path).expect("it is there");
    others.set_nonblocking(true).expect("it is a socket");
    fill(|| others.send(b"x"));
    let mut command = node.mgbd(&[]);
    let mgbd = RunningProgram::start(command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000"));
    wait::until("mgbd serves", || Client::observe(&node.socket()).ok().map(drop));
    is_served(&node);
    let mut buffer = [0; 4096];
    let mut hear = || {
        let length = systemd.recv(&mut buffer).expect("somebody says something");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    systemd
        .set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .expect("a timeout");
    while !hear().contains("READY=1") {}
    while hear() != "WATCHDOG=1\n" {}
    mgbd.signal(Signal::TERM);
    assert_eq!(mgbd.end().code(), 0);
}
