//! Whom an `mgbd` serves, whoever has made its socket.

mod common;

use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{Daemon, GpuSetting, MIB, raw};
use mgb_probe::hello::HelloAnswer;
use mgb_probe::wire::{CHANNEL_BYTES, Opening};
use mgb_scheduler::Users;

/// A group that nobody is in.
const GROUP: u32 = 20_077;

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

/// Not a test: says whether it is served as the user and in the groups that it is told.
#[test]
fn guest_process() {
    let Ok(who) = std::env::var("TEST_WHO") else {
        return;
    };
    let who: Vec<u32> = who.split(' ').map(|id| id.parse().unwrap()).collect();
    let socket = std::env::var("MGB_SOCKET").unwrap();
    raw::become_user(who[0], who[1], &who[2..]);
    let connection = raw::connect(Path::new(&socket)).unwrap();
    let (memory, doorbell) = (raw::memory(CHANNEL_BYTES, raw::SEALS), raw::bell());
    let files = [memory.as_fd(), doorbell.as_fd()];
    raw::try_send(&connection, &Opening::new(0, 0).encode(), &files).unwrap();
    match raw::answer(&connection).unwrap() {
        Some(HelloAnswer::Hello(_)) => println!("is served"),
        Some(HelloAnswer::Refused { reason, .. }) => println!("is refused: {reason}"),
        None => println!("is cut off"),
    }
}

fn said(daemon: &Daemon, who: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["guest_process", "--exact", "--nocapture", "--test-threads=1"])
        .env("TEST_WHO", who)
        .env("MGB_SOCKET", daemon.socket());
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_group_is_served_and_others_are_not_at_a_socket_that_is_open_to_all() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can start programs of several users");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(folder.path(), 0o755);
    std::fs::create_dir(folder.path().join("memory")).unwrap();
    let mut daemon = Daemon::over(folder, GpuSetting::new(1, 100 * MIB, MIB));
    let listener = raw::listen(&daemon.socket());
    open(&daemon.socket(), 0o666);
    daemon.start_again_with(|config| {
        config.activated = Some(Arc::new(listener));
        let name = "students".to_owned();
        config.users = Users::Group { name, gid: GROUP };
    });
    daemon.client("begin 10 map 10 end say done").finish();
    for (who, is_served) in [
        ("0 0", true),
        ("20001 20077", true),
        ("20001 20001 5 20077 6", true),
        ("20001 20001", false),
        ("20001 20001 5 20078", false),
    ] {
        let said = said(&daemon, who);
        assert_eq!(said.contains("is served"), is_served, "{who}: {said}");
        let why = "it runs as uid 20001, which is not in the group students";
        assert_eq!(said.contains(why), !is_served, "{who}: {said}");
    }
}
