//! What outlives `mgbd`: MPS, and the driver's files of programs. MPS's control program is a script that
//! notes what it is asked.

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use common::mps_daemon::{CONTROL, MpsDaemon, setting, with_mps};
use common::{DRIVER_FILE, run_mgbd, wait_for};
use mgb_interface::holder::report;
use mgb_probe::Client;
use mgb_scheduler::daemon::Config;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

/// Not a test: an `mgbd` in a process of its own, to be killed.
#[test]
fn mgbd_process() {
    let Some(folder) = std::env::var_os("MGB_TEST_MGBD").map(PathBuf::from) else {
        return;
    };
    let mut config = Config::new(folder.join("mgbd.sock"));
    with_mps(&folder)(&mut config);
    let (_never, stopped) = UnixStream::pair().unwrap();
    run_mgbd(setting(), &folder, config, stopped);
}

#[test]
fn the_last_one_out_stops_mps() {
    let mut node = MpsDaemon::new();
    node.start();
    wait_for("mgbd to answer", || {
        Client::observe(&node.daemon.socket()).is_ok()
    });
    let pid_file = node.folder().join("clients/mps/nvidia-cuda-mps-control.pid");
    assert_eq!(
        fs::metadata(pid_file).unwrap().permissions().mode() & 0o022,
        0,
        "others name no MPS"
    );
    assert_eq!(
        node.pipe(),
        Some(node.folder().join("clients/mps").display().to_string())
    );
    let mut client = node.daemon.client("begin 10 map 10 end say done");
    client.until("done");
    client.finish();
    let observer = Client::observe(&node.daemon.socket()).expect("mgbd answers");
    wait_for("mgbd to notice the end of its client", || {
        let gpus = observer.status().expect("a view").gpus;
        gpus.iter().all(|gpu| gpu.processes == 0)
    });
    drop(observer);
    assert!(node.mps_runs());
    node.daemon.stop();
    assert!(!node.mps_runs(), "mgbd ended before its MPS");
    node.check_over();
}

#[test]
fn mps_goes_on_under_a_client_when_mgbd_is_stopped_and_the_next_one_adopts_it() {
    let mut node = MpsDaemon::new();
    node.start();
    let mut client = node.daemon.client("begin 10 map 10 say up await say done");
    client.until("up");
    let pipe = node.pipe();
    node.daemon.stop();
    assert!(node.mps_runs());
    let left = report(&node.daemon.socket()).expect("a holder");
    assert_eq!((left.pids, left.mps), (vec![client.child.id()], true));
    node.start();
    wait_for("the next mgbd", || Client::observe(&node.daemon.socket()).is_ok());
    assert_eq!(node.pipe(), pipe);
    let mut other = node.daemon.client("begin 10 map 10 end say done");
    other.until("done");
    other.finish();
    node.daemon.stop();
    assert_eq!(
        (node.count("start"), node.count("quit")),
        (1, 0),
        "{:?}",
        node.calls()
    );
    node.daemon.go();
    client.until("done");
    client.finish();
    node.check_over();
}

#[test]
fn a_killed_mgbd_leaves_mps_and_the_files_of_programs_at_work() {
    let mut node = MpsDaemon::new();
    let mut first = node.start_process();
    let mut works = node.daemon.client(&format!(
        "begin 10 map 10 keep {DRIVER_FILE} busy say up sleep 60000"
    ));
    let mut rests = node
        .daemon
        .client(&format!("begin 10 map 10 keep {DRIVER_FILE} say up sleep 60000"));
    works.until("up");
    rests.until("up");
    wait_for("the files", || node.files_held() == 4);
    first.kill().unwrap();
    first.wait().unwrap();
    let holders = node.holders();
    rests.kill();
    wait_for("the idle one's files to go", || node.files_held() == 2);
    works.kill();
    node.start();
    wait_for("the next mgbd", || Client::observe(&node.daemon.socket()).is_ok());
    assert_eq!(node.holders(), holders, "the next mgbd goes on with the holder");
    assert_eq!(node.files_held(), 2, "it ended at work");
    assert_eq!(
        (node.count("start"), node.count("quit")),
        (1, 0),
        "{:?}",
        node.calls()
    );
    node.daemon.stop();
    assert!(node.mps_runs(), "its work may run still");
    end_holder(&node);
}

/// Kills the holder, and its MPS by hand.
fn end_holder(node: &MpsDaemon) {
    for pid in node.holders() {
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    }
    wait_for("the holder to end", || node.holders().is_empty());
}

#[test]
fn a_killed_mgbd_without_a_successor_takes_mps_with_it_once_its_programs_have_ended() {
    let node = MpsDaemon::new();
    let mut mgbd = node.start_process();
    let mut client = node.daemon.client("begin 10 map 10 say up await say done");
    client.until("up");
    mgbd.kill().unwrap();
    mgbd.wait().unwrap();
    node.daemon.go();
    client.until("done");
    assert_eq!(node.count("quit"), 0);
    client.finish();
    node.check_over();
}

#[test]
fn a_killed_holder_is_replaced_and_mps_goes_on() {
    let mut node = MpsDaemon::new();
    node.start();
    let mut client = node.daemon.client(&format!(
        "begin 10 map 10 keep {DRIVER_FILE} say up await say done"
    ));
    client.until("up");
    wait_for("the files", || node.files_held() == 2);
    end_holder(&node);
    wait_for("another holder with the files", || node.files_held() == 2);
    assert!(node.mps_runs());
    node.daemon.go();
    client.until("done");
    client.finish();
    wait_for("the files to go", || node.files_held() == 0);
    node.daemon.stop();
    node.check_over();
}

#[test]
fn an_mps_that_dies_is_started_again() {
    let mut node = MpsDaemon::new();
    node.start();
    let mut client = node.daemon.client("begin 10 map 10 say up await say done");
    client.until("up");
    let pipe = node.pipe();
    let asked = node.count("get_server_list");
    node.kill_mps();
    wait_for("another MPS", || node.count("start") == 2 && node.mps_runs());
    wait_for("it to answer", || node.count("get_server_list") > asked);
    assert_eq!(node.pipe(), pipe);
    // One that cannot be started again is missing as long as that is so, and mgbd says why.
    node.install("#!/bin/sh\necho it is broken >&2\nexit 1\n");
    node.kill_mps();
    wait_for("mgbd to know it", || node.pipe().is_none());
    let hello = Client::observe(&node.daemon.socket()).unwrap().hello().clone();
    assert!(hello.mps_note.is_some_and(|note| note.contains("it is broken")));
    node.install(CONTROL);
    wait_for("MPS again", || node.pipe() == pipe && node.mps_runs());
    node.daemon.go();
    client.until("done");
    client.finish();
    node.daemon.stop();
    wait_for("MPS to end", || !node.mps_runs());
    wait_for("the holder to end", || node.holders().is_empty());
    assert_eq!(
        (node.count("start"), node.count("quit")),
        (3, 1),
        "{:?}",
        node.calls()
    );
}

#[test]
fn the_socket_of_a_killed_holder_is_in_nobodys_way() {
    let mut node = MpsDaemon::new();
    node.start();
    let mut client = node.daemon.client("begin 10 map 10 say up await say done");
    client.until("up");
    node.daemon.stop();
    end_holder(&node);
    assert!(node.folder().join("mgbd.sock.private/holder").exists());
    node.start();
    wait_for("the next mgbd", || Client::observe(&node.daemon.socket()).is_ok());
    assert!(node.pipe().is_some());
    node.daemon.go();
    client.finish();
    node.daemon.stop();
    node.check_over();
}

/// A child of a program, of which mgbd does not know.
#[test]
fn mps_is_not_stopped_under_a_client_that_only_mps_knows() {
    let mut node = MpsDaemon::new();
    node.start();
    wait_for("mgbd to answer", || {
        Client::observe(&node.daemon.socket()).is_ok()
    });
    fs::write(node.folder().join("clients/mps/clients"), "815\n").unwrap();
    node.daemon.stop();
    let looks = node.count("get_client_list");
    wait_for("the holder to look again", || {
        node.count("get_client_list") > looks + 1
    });
    assert_eq!(node.count("quit"), 0);
    fs::remove_file(node.folder().join("clients/mps/clients")).unwrap();
    node.check_over();
}

#[test]
fn a_holder_of_another_version_is_left_alone() {
    let mut node = MpsDaemon::new();
    let path = node.folder().join("mgbd.sock.private/holder");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    let kind = SocketType::SEQPACKET;
    let listener: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let strange = std::thread::spawn(move || {
        let line = rustix::net::accept(&listener).unwrap();
        let greeting = br#"{"Greeting":{"version":99,"pid":7}}"#;
        rustix::net::send(&line, greeting, SendFlags::NOSIGNAL).unwrap();
        listener
    });
    node.start();
    wait_for("mgbd to answer", || {
        Client::observe(&node.daemon.socket()).is_ok()
    });
    let hello = Client::observe(&node.daemon.socket()).unwrap().hello().clone();
    assert_eq!(hello.mps_pipe, None);
    let note = hello.mps_note.unwrap();
    assert!(note.contains("pid 7, version 99"), "{note}");
    let mut client = node.daemon.client("begin 10 map 10 end say done");
    client.until("done");
    client.finish();
    drop(strange.join().unwrap());
    assert!(node.count("start") == 0 && path.exists());
}

/// A line to the holder, which has greeted.
fn line_to_holder(node: &MpsDaemon) -> OwnedFd {
    let path = node.folder().join("mgbd.sock.private/holder");
    let kind = SocketType::SEQPACKET;
    let line = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&line, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    assert!(heard(&line, RecvFlags::empty()).unwrap().contains("Greeting"));
    line
}

/// What is said next on a line.
fn heard(line: &OwnedFd, flags: RecvFlags) -> rustix::io::Result<String> {
    let mut buffer = vec![0; 1 << 16];
    let (length, _) = rustix::net::recv(line, &mut buffer[..], flags)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Another mgbd is turned away once the one that is there has had time to be seen to be gone. Nobody else waits
/// for that.
#[test]
fn who_asks_the_holder_does_not_wait_for_an_mgbd_that_comes() {
    let mut node = MpsDaemon::new();
    node.start();
    wait_for("a holder", || report(&node.daemon.socket()).is_some());
    // Where this process is held up the other one may be turned away first.
    wait_for("an answer before another mgbd is turned away", || {
        let line = line_to_holder(&node);
        let adopt = r#"{"Adopt":{"version":3,"pid":7,"mps":false,"users":false,"restarts":false}}"#;
        rustix::net::send(&line, adopt.as_bytes(), SendFlags::NOSIGNAL).unwrap();
        let is_answered = report(&node.daemon.socket()).is_some();
        let is_first = heard(&line, RecvFlags::DONTWAIT).is_err();
        if is_first {
            assert!(heard(&line, RecvFlags::empty()).unwrap().contains("Busy"));
        }
        is_answered && is_first
    });
    let mut client = node.daemon.client("begin 10 map 10 end say done");
    client.until("done");
    client.finish();
}
