//! The node view: who may do what to it, and what who reads it sees.

mod common;

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Daemon, GpuSetting, MIB, wait_for};
use mgb_probe::view::{self, SEGMENT_BYTES, ViewError};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

/// The file of a view.
fn file_of(name: &str) -> PathBuf {
    PathBuf::from("/dev/shm").join(name.trim_start_matches('/'))
}

#[test]
fn the_view_is_for_reading_only() {
    let mut daemon = Daemon::start(GpuSetting::new(3, 100 * MIB, MIB));
    let observer = mgb_probe::Client::observe(&daemon.socket()).unwrap();
    assert_eq!(observer.hello().client_pid, Some(std::process::id()));
    let name = observer.hello().view.clone().unwrap();
    let file = file_of(&name);
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o444);
    let view = observer.status().unwrap();
    assert_eq!((view.gpus.len(), view.clients), (3, 0));
    assert_eq!(view.policy, "mgb");
    daemon.stop();
    assert!(!file.exists());
    assert!(observer.status().is_err());
}

/// Programs take memory without a word to mgbd, and who watches wants to see when.
#[test]
fn who_watches_sees_what_the_driver_says_now() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, 0));
    let mut client = daemon.client("begin 60 map 60 say up sleep 60000");
    client.until("up");
    let observer = mgb_probe::Client::observe(&daemon.socket()).unwrap();
    let began = Instant::now();
    let mut looks = std::collections::BTreeSet::new();
    while began.elapsed() < Duration::from_secs(1) {
        looks.insert(observer.status().unwrap().uptime_ms);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Five of them while nobody watches.
    assert!(looks.len() > 10, "{looks:?}");
    client.kill();
    daemon.check_empty();
}

/// As root of a container that has the node's `/dev/shm` does, or a program of mgbd's user.
#[test]
fn a_view_that_is_cut_short_ends_nobody_and_is_whole_again() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let observer = mgb_probe::Client::observe(&daemon.socket()).unwrap();
    let name = observer.hello().view.clone().unwrap();
    std::fs::set_permissions(file_of(&name), Permissions::from_mode(0o600)).unwrap();
    let file = File::options().write(true).open(file_of(&name)).unwrap();
    for length in [0, 64, 4096, SEGMENT_BYTES - 1] {
        file.set_len(length).unwrap();
        let mut client = daemon.client("begin 10 map 10 say up sleep 60000");
        client.until("up");
        wait_for("it to be whole", || {
            file.metadata().unwrap().len() == SEGMENT_BYTES
        });
        daemon.wait_view("the task", |view| view.tasks.len() == 1);
        assert_eq!(observer.status().unwrap().tasks.len(), 1);
        client.kill();
        daemon.check_empty();
    }
    // Where mgbd has nothing to write.
    drop(observer);
    wait_for("a reader to say so", || {
        file.set_len(100).unwrap();
        matches!(view::read(&name), Err(ViewError::Cut(_)))
    });
    // One that nobody finds any more is made anew for who comes next.
    std::fs::remove_file(file_of(&name)).unwrap();
    std::fs::write(file_of(&name), "another's").unwrap();
    let observer = mgb_probe::Client::observe(&daemon.socket()).unwrap();
    assert_ne!(observer.hello().view.as_ref(), Some(&name));
    observer.status().unwrap();
    std::fs::remove_file(file_of(&name)).unwrap();
}
