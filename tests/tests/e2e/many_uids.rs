//! One user with many numbers, or two together, are no more than one user each.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mgb_tests::process::{Running, run};
use mgb_tests::wait;

use super::users::{Shared, USERS, is_right};

/// One of the first user's subordinate users.
const SUBORDINATE: u32 = 300_005;

#[test]
fn subordinate_users_are_charged_to_their_owner() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let (subuid, quotas) = (folder.path().join("subuid"), folder.path().join("quotas"));
    fs::write(&subuid, format!("{}:300000:65536\n", USERS[0])).unwrap();
    fs::write(&quotas, "[default]\nbytes = \"40MiB\"\n").unwrap();
    let text = |path: &std::path::Path| path.to_str().expect("paths of tests are UTF-8").to_owned();
    let options = [
        "--serve",
        "all",
        "--subuid",
        &text(&subuid),
        "--quotas",
        &text(&quotas),
    ];
    let Some(mut shared) = Shared::start("1x64MiB", &options) else {
        return;
    };
    let first = shared.phases(USERS[0], "24", "20");
    let arguments = ["24", "1", "1", "wait", "10", "8"];
    let second = Running::start(
        shared
            .command(SUBORDINATE, "phases", &arguments)
            .env("MGB", "require"),
    );
    for round in 0..2 {
        let waits = wait::until("it waits for its owner's", || {
            let view = shared.node.view();
            let waits = view.queue.iter().find(|waits| waits.pid == second.pid());
            waits.map(|waits| (waits.uid, waits.over_quota))
        });
        assert_eq!(waits, (USERS[0], true));
        // So it stays under the next mgbd. It reads its view by its own number.
        run(&mut shared.command(SUBORDINATE, "mgb", &["status"])).success();
        if round == 0 {
            shared.node.replace_mgbd(rustix::process::Signal::KILL);
        }
    }
    is_right(first);
    is_right(second);
}

/// As the user `$1`, connects again and again, and says nothing. A file says when all is taken.
const SILENT: &str = r#"
import os, select, socket, sys, time
says = open(sys.argv[2], "w")
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
def connect():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect(os.environ["MGB_SOCKET"])
    return one
all = [connect() for _ in range(64)]
print("full", file=says, flush=True)
while True:
    for gone in select.select(all, [], [], 0.1)[0]:
        all.remove(gone)
        gone.close()
        all.append(connect())
    time.sleep(0.02)
"#;

#[test]
fn two_users_who_say_nothing_keep_nobody_out() {
    let Some(shared) = Shared::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let full = |uid: u32| shared.path(&format!("full-{uid}"));
    let start = |uid: u32| {
        fs::write(full(uid), "").unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", SILENT, &uid.to_string()]).arg(full(uid));
        Running::start(python.env("MGB_SOCKET", shared.node.socket()))
    };
    let attackers = USERS.map(start);
    wait::until("all places are taken", || {
        let is_full = |uid: &u32| !fs::read_to_string(full(*uid)).unwrap().is_empty();
        USERS.iter().all(is_full).then_some(())
    });
    for _ in 0..20 {
        run(&mut shared.command(20_003, "mgb", &["status"])).success();
    }
    drop(attackers);
}
