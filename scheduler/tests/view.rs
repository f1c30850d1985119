//! The node view: who may do what to it, and what who reads it sees.

mod common;

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Daemon, GpuSetting, MIB, wait_for};
use mgb_probe::view::{self, NodeView, SEGMENT_BYTES, ViewError};

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

/// The shares of a GPU's time by process: the first one's, and the second one's.
fn shares(view: &NodeView, pids: [u32; 2]) -> [Option<u32>; 2] {
    pids.map(|pid| view.tasks.iter().find(|task| task.pid == pid)?.share)
}

#[test]
fn whose_the_time_of_a_gpu_is_shows() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let mut first = daemon.client("begin 10 map 10 busy say up await done say idle sleep 60000");
    let mut second = daemon.client("begin 10 map 10 busy say up await times sleep 60000");
    // It has no context yet, and so no work.
    let mut begins = daemon.client("begin 10 say up sleep 60000");
    begins.until("up");
    first.until("up");
    second.until("up");
    let pids = [first.child.id(), second.child.id()];
    let view = daemon.wait_view("half of it to be each one's", |view| {
        shares(view, pids)
            .iter()
            .all(|share| share.is_some_and(|part| (450..=550).contains(&part)))
    });
    assert!(
        view.tasks
            .iter()
            .all(|task| (task.busy_ms > 0 || task.pid == begins.child.id()) && task.share_due.is_none()),
        "{view:?}"
    );
    daemon.go();
    first.until("idle");
    let told = second.until("busy");
    let [busy, part, all] = [1, 3, 5].map(|word| told.split(' ').nth(word).unwrap().parse::<u64>().unwrap());
    // The words are written one after another.
    assert!(0 < part && part < busy && busy.abs_diff(all) <= 1000, "{told}");
    // The other one has all, once the last seconds are without the first.
    daemon.wait_view("all of it to be the second one's", |view| {
        shares(view, pids) == [Some(0), Some(1000)]
    });
    begins.kill();
    first.kill();
    second.kill();
    daemon.check_empty();
}

#[test]
fn who_waits_for_its_memory_while_another_works_is_shown_to_be_short() {
    let daemon = Daemon::start(GpuSetting::new(1, 100 * MIB, MIB));
    let mut works = daemon.client("begin 60 map 60 busy say up await done end say ended sleep 60000");
    works.until("up");
    let mut waits = daemon.client("begin 30 map 30 busy say up done grow 30 busy sleep 60000");
    waits.until("up");
    let due = |view: &NodeView, pid| view.tasks.iter().find(|task| task.pid == pid)?.share_due;
    let pid = waits.child.id();
    let view = daemon.wait_view("it to be short", |view| due(view, pid).is_some());
    assert!(
        due(&view, pid).is_some_and(|due| (400..=500).contains(&due)),
        "{view:?}"
    );
    assert_eq!(due(&view, works.child.id()), None);
    daemon.go();
    works.until("ended");
    waits.until("grown");
    daemon.wait_view("it to have its share", |view| {
        due(view, pid).is_none() && view.tasks.iter().any(|task| task.share == Some(1000))
    });
    works.kill();
    waits.kill();
    daemon.check_empty();
}
