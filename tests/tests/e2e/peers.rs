//! Who speaks to mgbd is the process that connected, not another one that has its number by now.

use std::fs::Permissions;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::users::USERS;
use mgb_probe::hello::HelloAnswer;
use mgb_probe::wire::{CHANNEL_BYTES, Opening};
use mgb_tests::node::PrivateNode;
use mgb_tests::numbered::Numbered;
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// Connects to mgbd, hands the connection to its standard input, and ends when that does.
const CONNECT: &str = r#"
import os, socket, sys
if len(sys.argv) > 2:
    os.setresuid(int(sys.argv[2]), int(sys.argv[2]), 0)
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(sys.argv[1])
if len(sys.argv) > 2:
    os.setresuid(0, 0, 0)
own = socket.socket(fileno=0)
socket.send_fds(own, [b"x"], [line.fileno()])
own.recv(1)
"#;

/// A process that has connected, perhaps as another user than it is now; the line by which it ends; and its
/// connection.
fn connect(socket: &Path, uid: Option<u32>) -> (Child, UnixStream, OwnedFd) {
    let (own, its) = UnixStream::pair().expect("a line");
    let mut python = Command::new("python3");
    python
        .args(["-c", CONNECT])
        .arg(socket)
        .args(uid.map(|uid| uid.to_string()));
    let child = python
        .stdin(Stdio::from(OwnedFd::from(its)))
        .spawn()
        .expect("python runs");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(&own, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).expect("it was sent");
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let connection = files.flatten().next().expect("a connection");
    (child, own, connection)
}

/// Says what a client says first; what mgbd answers.
fn greet(line: &OwnedFd) -> HelloAnswer {
    let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&memory, CHANNEL_BYTES as u64).unwrap();
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let files: [BorrowedFd<'_>; 2] = [memory.as_fd(), bell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let opening = Opening::new(0, 0).encode();
    rustix::net::sendmsg(line, &[IoSlice::new(&opening)], &mut control, SendFlags::NOSIGNAL)
        .expect("it is open");
    sockopt::set_socket_timeout(line, sockopt::Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
    let mut buffer = vec![0; 1 << 17];
    let (length, _) = rustix::net::recv(line, &mut buffer, RecvFlags::empty()).expect("an answer");
    serde_json::from_slice(&buffer[..length]).expect("an answer")
}

#[test]
fn another_process_with_the_number_of_one_that_connected_is_no_client() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let (mut child, ends, line) = connect(&node.socket(), None);
    drop(ends);
    assert!(child.wait().expect("it ends").success());
    let Some(other) = Numbered::start(child.id()) else {
        eprintln!("left out: only root can choose numbers of processes");
        return;
    };
    match greet(&line) {
        HelloAnswer::Refused { reason, .. } => assert!(reason.contains("has ended"), "{reason}"),
        HelloAnswer::Hello(hello) => panic!("it is client {:?}", hello.client_pid),
    }
    assert!(other.runs());
}

#[test]
fn a_process_that_has_become_another_users_is_no_client() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can be several users");
        return;
    }
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    std::fs::set_permissions(node.folder(), Permissions::from_mode(0o755)).expect("it is ours");
    node.start_mgbd_with("mgb", &["--serve", "all"]);
    let (mut child, ends, line) = connect(&node.socket(), Some(USERS[0]));
    match greet(&line) {
        HelloAnswer::Refused { reason, .. } => assert!(reason.contains("another user's"), "{reason}"),
        HelloAnswer::Hello(hello) => panic!("it is client {:?}", hello.client_pid),
    }
    drop(ends);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_process_that_mgbd_does_not_see_is_no_client() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can make PID namespaces here");
        return;
    }
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mut command = node.command("unshare", &["--pid", "--fork", "--kill-child", "--mount-proc"]);
    let mgbd = RunningProgram::start(command.arg(bin("mgbd")));
    let line = wait::until("mgbd to listen", || {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let line = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).ok()?;
        let address = SocketAddrUnix::new(node.socket()).ok()?;
        rustix::net::connect(&line, &address).ok().map(|()| line)
    });
    match greet(&line) {
        HelloAnswer::Refused { reason, .. } => assert!(reason.contains("another PID namespace"), "{reason}"),
        HelloAnswer::Hello(hello) => panic!("it is client {:?}", hello.client_pid),
    }
    let mut inside = node.command("nsenter", &["--pid", "--mount", "--target"]);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", mgbd.pid())).unwrap();
    run(inside.arg(children.trim()).arg(bin("mgb")).arg("status")).success();
}
