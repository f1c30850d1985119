//! One user with many numbers, or two together, are no more than one user each.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

use super::users::{SharedNode, USERS, is_right};

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
    let Some(mut shared) = SharedNode::start("1x64MiB", &options) else {
        return;
    };
    let first = shared.phases(USERS[0], "24", "20");
    let arguments = ["24", "1", "1", "wait", "10", "8"];
    let second = RunningProgram::start(
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
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let full = |uid: u32| shared.path(&format!("full-{uid}"));
    let start = |uid: u32| {
        fs::write(full(uid), "").unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", SILENT, &uid.to_string()]).arg(full(uid));
        RunningProgram::start(python.env("MGB_SOCKET", shared.node.socket()))
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

/// As the user `$1`, greets mgbd with the opening `$3` again and again until it is refused; writes how often
/// it was let in to the file `$2`, and stays.
const MANY: &str = r#"
import fcntl, os, select, socket, sys
uid = int(sys.argv[1])
says = open(sys.argv[2], "w")
os.setgid(uid)
os.setuid(uid)
lines = []
while True:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(os.environ["MGB_SOCKET"])
    memory = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, int(sys.argv[4]))
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    bell = os.eventfd(0)
    try:
        socket.send_fds(line, [bytes.fromhex(sys.argv[3])], [memory, bell])
    except BrokenPipeError:
        # It was turned away before that, which it is told below.
        pass
    answer = line.recv(1 << 17)
    if b"Refused" in answer or b"refused" in answer:
        break
    lines.append((line, memory, bell))
print(len(lines), answer.decode(), file=says, flush=True)
select.select([], [], [])
"#;

#[test]
fn a_user_with_many_clients_leaves_places_to_others() {
    let Some(mut shared) = SharedNode::without_mgbd("1x64MiB") else {
        return;
    };
    // So few descriptors that 16 clients find a place.
    let mut command = shared.node.command("prlimit", &["--nofile=512:512"]);
    command.arg(bin("mgbd")).args(["--serve", "all"]);
    shared.node.start_mgbd_as(&mut command);
    let opening = mgb_probe::wire::Opening::new(0, 0).encode();
    let opening: String = opening.iter().map(|byte| format!("{byte:02x}")).collect();
    let comes = |uid: u32| {
        let told = shared.path(&format!("told-{uid}"));
        fs::write(&told, "").unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", MANY, &uid.to_string()]).arg(&told);
        python.args([&opening, &mgb_probe::wire::CHANNEL_BYTES.to_string()]);
        let running = RunningProgram::start(python.env("MGB_SOCKET", shared.node.socket()));
        let said = wait::until("it to be refused", || {
            let said = fs::read_to_string(&told).unwrap();
            said.ends_with('\n').then_some(said)
        });
        let (count, why) = said.split_once(' ').expect("a count and an answer");
        (running, count.parse::<u32>().expect("a count"), why.to_owned())
    };
    let (_first, count, why) = comes(USERS[0]);
    assert!(why.contains("as mgbd serves of one user"), "{count}: {why}");
    let (_second, others, why) = comes(USERS[1]);
    assert!((1..=count).contains(&others), "{others} beside {count}: {why}");
}
