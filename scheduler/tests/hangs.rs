//! What clients chose, or the driver, hangs: `mgbd` serves the others, and can be killed and followed.

mod common;

use std::fs::{File, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::fuse::Fuse;
use common::{ClientProcess, Daemon, GpuSetting, MIB, alive, raw, run_mgbd, wait_for};
use mgb_interface::holder::report;
use mgb_probe::Client;
use mgb_probe::hello::HelloAnswer;
use mgb_probe::wire::{MOST_KEPT, Opening};
use mgb_scheduler::Users;
use mgb_scheduler::daemon::Config;
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
    config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
    let (_never, stopped) = UnixStream::pair().unwrap();
    run_mgbd(setting(), &folder, config, stopped);
}

/// Not a test: sends files that cannot be closed, as often as it is let in, and says why not.
#[test]
fn sender_process() {
    let (Ok(socket), Ok(file)) = (std::env::var("TEST_SOCKET"), std::env::var("TEST_FILE")) else {
        return;
    };
    if std::env::var_os("TEST_USER").is_none() {
        raw::become_user(65534, 65534, &[]);
    }
    let files: Vec<File> = (0..MOST_KEPT).map(|_| File::open(&file).unwrap()).collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let opening = Opening::new(0, 0).encode();
    wait_for("to be refused for it", || {
        let connection = raw::connect(Path::new(&socket)).unwrap();
        let _ = raw::try_send(&connection, &opening, &files);
        let Ok(Some(HelloAnswer::Refused { reason, .. })) = raw::answer(&connection) else {
            return false;
        };
        reason.contains("cannot be closed")
    });
    println!("refused");
}

fn setting() -> GpuSetting {
    GpuSetting::new(1, 100 * MIB, MIB)
}

/// A file system with this program, after which `daemon` is declared: what waits for it ends before `mgbd`
/// is waited for.
fn file_system() -> Option<Fuse> {
    Fuse::new(&std::env::current_exe().unwrap())
}

/// Waits for a client's good end, without waiting for ever.
fn is_served(client: ClientProcess) {
    wait_for("a client to be served", || !alive(client.child.id()));
    client.finish();
}

#[test]
fn a_program_on_a_file_system_that_hangs_keeps_nobody_waiting() {
    let daemon = Daemon::start_with(setting(), |config| {
        config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
    });
    let Some(fuse) = file_system() else { return };
    fuse.hang_for(std::process::id());
    let script = "begin 10 map 10 say up sleep 60000";
    let mut stuck: Vec<ClientProcess> = (0..4)
        .map(|_| daemon.client_of(&fuse.program(), script))
        .collect();
    wait_for("what hangs to be asked about", || fuse.unanswered() > 0);
    for _ in 0..20 {
        is_served(daemon.client("begin 10 map 10 end say done"));
    }
    // It is a client like any other: only what it runs is not known.
    for client in &mut stuck {
        client.until("up");
    }
    assert_eq!(daemon.view().tasks.len(), 4);
    // Of one user no more threads wait than a few.
    assert!(fuse.unanswered() <= 2, "{} threads wait", fuse.unanswered());
    fuse.hang_for(0);
    for client in &mut stuck {
        client.kill();
    }
    daemon.check_empty();
}

/// Starts an `mgbd` that can be killed.
fn start_process(daemon: &Daemon) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["mgbd_process", "--exact", "--nocapture", "--test-threads=1"])
        .env("MGB_TEST_MGBD", daemon.folder.path())
        .spawn()
        .unwrap();
    wait_for("mgbd to answer", || Client::observe(&daemon.socket()).is_ok());
    child
}

/// A daemon whose `mgbd` can be killed, that process, and a file system that may hang; `None`: none can be had
/// here.
fn beside_a_file_system() -> Option<(Daemon, Child, Fuse)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("memory")).unwrap();
    let daemon = Daemon::over(folder, setting());
    // Before there is a file system, so that nothing of it is open there.
    let mut mgbd = start_process(&daemon);
    let Some(fuse) = file_system() else {
        mgbd.kill().unwrap();
        mgbd.wait().unwrap();
        return None;
    };
    Some((daemon, mgbd, fuse))
}

#[test]
fn where_a_file_system_hangs_mgbd_can_be_killed_and_followed() {
    let Some((mut daemon, mut first, fuse)) = beside_a_file_system() else {
        return;
    };
    fuse.hang_for(first.id());
    let mut stuck = daemon.client_of(&fuse.program(), "begin 10 map 10 say up sleep 60000");
    stuck.until("up");
    assert_eq!(fuse.unanswered(), 1);
    // A thread of it waits for what does not answer, and so it is not gone: but all it had is.
    first.kill().unwrap();
    wait_for("its loop to end", || !alive(first.id()));
    // Nor does what hangs keep the next one from its start.
    fuse.hang_for(std::process::id());
    daemon.start_again_with(|config| config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into()));
    wait_for("the next mgbd", || Client::observe(&daemon.socket()).is_ok());
    assert_eq!(fuse.unanswered(), 2);
    is_served(daemon.client("begin 10 map 10 end say done"));
    assert_eq!(
        daemon.view().tasks.len(),
        1,
        "the first one's client is gone on with"
    );
    drop(fuse);
    first.wait().unwrap();
    stuck.kill();
    daemon.check_empty();
}

#[test]
fn a_driver_that_hangs_or_fails_keeps_nobody_waiting_and_foreign_memory_is_not_forgotten() {
    for hangs in [true, false] {
        let daemon = Daemon::start(GpuSetting {
            bounded: true,
            ..setting()
        });
        daemon.foreign(60 * MIB);
        is_served(daemon.client("begin 10 map 10 end say done"));
        let driver = &daemon.setting.driver;
        driver.store(if hangs { 2 } else { 1 }, Ordering::Relaxed);
        is_served(daemon.client("begin 10 map 10 end say done"));
        let large = daemon.client("begin 50 map 50 end say done");
        daemon.wait_view("what does not fit beside others to wait", |view| {
            view.queue.len() == 1 && view.gpus[0].driver_free_bytes.is_none()
        });
        is_served(daemon.client("begin 10 map 10 end say done"));
        daemon.foreign(0);
        driver.store(0, Ordering::Relaxed);
        is_served(large);
        daemon.check_empty();
    }
}

/// How often this process, in which mgbd runs, has the file open that hangs.
fn times_open() -> usize {
    times_open_by(std::process::id())
}

/// How often a process has it open: its first thread, or, where that has ended, any other.
fn times_open_by(pid: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let tables = threads.filter_map(|thread| std::fs::read_dir(thread.path().join("fd")).ok());
    let open = tables.map(|open| open.flatten().collect::<Vec<_>>());
    let open = open.max_by_key(Vec::len).unwrap_or_default().into_iter();
    let names = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    // Where the file system lies is not said any more once it is gone.
    names.filter(|name| name.ends_with("program")).count()
}

/// A socket in whose queue lies one in whose queue lies one whose close waits for somebody, and that one.
fn nested() -> (OwnedFd, std::net::TcpStream) {
    let (slow, other) = raw::slow_to_close();
    let mut file = slow;
    for _ in 0..3 {
        let (inside, outside) = raw::pair();
        raw::try_send(&outside, b"x", &[file.as_fd()]).unwrap();
        file = inside;
    }
    (file, other)
}

#[test]
fn sockets_in_queues_of_sockets_do_not_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("memory")).unwrap();
    let daemon = Daemon::over(folder, setting());
    let mut mgbd = start_process(&daemon);
    let open = || {
        std::fs::read_dir(format!("/proc/{}/fd", mgbd.id()))
            .unwrap()
            .count()
    };
    is_served(daemon.client("begin 10 map 10 end say done"));
    let before = open();
    // The other ends, which read nothing.
    let mut others = Vec::new();
    let opening = Opening::new(0, 0).encode();
    for _ in 0..50 {
        let files: Vec<OwnedFd> = (0..4)
            .map(|_| {
                let (file, other) = nested();
                others.push(other);
                file
            })
            .collect();
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let connection = raw::connect(&daemon.socket()).unwrap();
        raw::try_send(&connection, &opening, &files).unwrap();
    }
    is_served(daemon.client("begin 10 map 10 end say done"));
    wait_for("what was sent to be closed", || open() <= before + 16);
    mgbd.kill().unwrap();
    mgbd.wait().unwrap();
}

#[test]
fn a_user_whose_files_cannot_be_closed_is_turned_away_and_others_are_served() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let daemon = Daemon::start_with(setting(), |config| config.users = Users::All);
    let Some(fuse) = file_system() else { return };
    std::fs::set_permissions(daemon.folder.path(), Permissions::from_mode(0o755)).unwrap();
    fuse.hang_for(std::process::id());
    assert!(sender(&daemon, &fuse).status().unwrap().success());
    assert!(fuse.unanswered() > 0);
    is_served(daemon.client("begin 10 map 10 end say done"));
    let open = times_open();
    assert!((1..=4 * MOST_KEPT).contains(&open), "{open} are open");
    drop(fuse);
    wait_for("what was sent to be closed", || times_open() == 0);
    daemon.check_empty();
}

/// Starts what sends files that cannot be closed.
fn sender(daemon: &Daemon, fuse: &Fuse) -> Command {
    let mut sender = Command::new(std::env::current_exe().unwrap());
    sender
        .args(["sender_process", "--exact", "--nocapture", "--test-threads=1"])
        .env("TEST_SOCKET", daemon.socket())
        .env("TEST_FILE", fuse.program());
    sender
}

#[test]
fn where_closing_hangs_mgbd_can_be_killed_and_followed() {
    let Some((mut daemon, mut first, fuse)) = beside_a_file_system() else {
        return;
    };
    let mut client = daemon.client("begin 10 map 10 say up await end begin 10 map 10 end say done");
    client.until("up");
    fuse.hang_for(first.id());
    assert!(
        sender(&daemon, &fuse)
            .env("TEST_USER", "own")
            .status()
            .unwrap()
            .success()
    );
    assert!(fuse.unanswered() > 0);
    // Threads of it wait for what does not answer, with all that it had open.
    first.kill().unwrap();
    wait_for("its loop to end", || !alive(first.id()));
    assert!(times_open_by(first.id()) > 0, "nothing hangs");
    daemon.start_again_with(|config| config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into()));
    wait_for("the next mgbd", || Client::observe(&daemon.socket()).is_ok());
    is_served(daemon.client("begin 10 map 10 end say done"));
    // The first one's client is gone on with.
    assert_eq!(daemon.view().tasks.len(), 1);
    daemon.go();
    is_served(client);
    assert!(times_open_by(first.id()) > 0, "nothing hangs any more");
    drop(fuse);
    first.wait().unwrap();
    daemon.check_empty();
}

#[test]
fn where_closing_hangs_a_holder_is_started_again() {
    let Some((daemon, mut mgbd, fuse)) = beside_a_file_system() else {
        return;
    };
    fuse.hang_for(mgbd.id());
    let mut sender = sender(&daemon, &fuse);
    assert!(sender.env("TEST_USER", "own").status().unwrap().success());
    // What mgbd starts is another process. This one has no file of the file system, nor has what it starts.
    fuse.hang_for_all();
    let old = common::holders(&daemon.socket());
    for holder in &old {
        kill_process(Pid::from_raw(*holder as i32).unwrap(), Signal::KILL).unwrap();
    }
    wait_for("another holder", || {
        let is_new = |pid: &u32| !old.contains(pid);
        common::holders(&daemon.socket()).iter().any(is_new) && report(&daemon.socket()).is_some()
    });
    assert!(times_open_by(mgbd.id()) > 0, "nothing hangs any more");
    drop(fuse);
    // Until then its user is turned away.
    wait_for("what was sent to be closed", || times_open_by(mgbd.id()) == 0);
    is_served(daemon.client("begin 10 map 10 end say done"));
    mgbd.kill().unwrap();
    mgbd.wait().unwrap();
}

/// A holder that is stopped hears everything when it goes on, and nobody waits for it meanwhile.
#[test]
fn a_holder_that_does_not_read_keeps_nobody_waiting() {
    const CLIENTS: usize = 600;
    let daemon = Daemon::start_with(setting(), |config| {
        config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
    });
    is_served(daemon.client("begin 10 map 10 end say done"));
    let holder = common::holders(&daemon.socket())[0];
    let signal = |signal| kill_process(Pid::from_raw(holder as i32).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    let start = Instant::now();
    let clients: Vec<raw::Intruder> = (0..CLIENTS)
        .map(|_| {
            assert!(start.elapsed() < Duration::from_secs(60), "each client waits");
            raw::Intruder::new(&daemon.socket())
        })
        .collect();
    is_served(daemon.client("begin 10 map 10 end say done"));
    signal(Signal::CONT);
    wait_for("the holder to hear of them", || {
        report(&daemon.socket()).is_some_and(|report| report.pids.len() == CLIENTS)
    });
    drop(clients);
    daemon.check_empty();
}
