//! Another user was first in a folder that all can write: nothing of what he made there is used.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use mgb_tests::prefix::bin;
use mgb_tests::process::{Ended, RunningProgram, run};
use mgb_tests::wait;

use super::users::{SharedNode, USERS};

const VICTIM: u32 = USERS[0];
const ATTACKER: u32 = USERS[1];

/// A folder as `/tmp` is, and in it one of this user and mode, as `/tmp/mgb-UID`.
fn folder(shared: &SharedNode, name: &str, owner: u32, mode: u32) -> PathBuf {
    let everybodys = shared.path("tmp");
    fs::create_dir_all(&everybodys).unwrap();
    fs::set_permissions(&everybodys, Permissions::from_mode(0o1777)).unwrap();
    let folder = everybodys.join(name);
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
    folder
}

fn as_victim(shared: &SharedNode, name: &str, arguments: &[&str], socket: &Path) -> Ended {
    let mut command = shared.command(VICTIM, name, arguments);
    command
        .env("MGB_PREFIX", prefix(shared))
        .env("MGB_SOCKET", socket);
    run(command.env("MGB", "require"))
}

/// What `mgb run` looks for before it looks for mgbd, within the users' reach.
fn prefix(shared: &SharedNode) -> PathBuf {
    let prefix = shared.path("prefix");
    if !prefix.exists() {
        for folder in ["bin", "lib/front"] {
            fs::create_dir_all(prefix.join(folder)).unwrap();
        }
        symlink(shared.path("lib"), prefix.join("lib/softgpu")).unwrap();
        fs::write(prefix.join("lib/front/libcuda.so.1"), "").unwrap();
        for program in ["mgb", "mgbd"] {
            let copy = prefix.join("bin").join(program);
            fs::copy(bin(program), &copy).unwrap();
            fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        }
    }
    prefix
}

fn started(shared: &SharedNode, owner: u32, socket: &Path) -> RunningProgram {
    prefix(shared);
    let mut command = shared.command(owner, "prefix/bin/mgbd", &["--serve", "all", "--no-mps"]);
    let running = RunningProgram::start(command.env("MGB_SOCKET", socket));
    wait::until("it listens", || socket.exists().then_some(()));
    running
}

#[test]
fn an_mgbd_of_another_user_is_not_used() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let socket = folder(&shared, "mgb-victim", ATTACKER, 0o755).join("mgbd.sock");
    let mut his = started(&shared, ATTACKER, &socket);
    let phases = ["8", "1", "1", "wait", "1", "1"];
    let whose = format!("belongs to uid {ATTACKER}");
    for (name, arguments) in [
        ("phases", &phases[..]),
        ("mgb", &["run", "true"]),
        ("mgb", &["status"]),
        ("mgb", &["stop"]),
    ] {
        as_victim(&shared, name, arguments, &socket).failure(&[&whose, "MGB_SOCKET"]);
    }
    // Moved to where its folder is trusted, as somebody who may write there does.
    let moved = folder(&shared, "mgb-moved", VICTIM, 0o700).join("mgbd.sock");
    fs::rename(&socket, &moved).unwrap();
    chown(&moved, Some(VICTIM), None).unwrap();
    let whose = format!("is served by a process of uid {ATTACKER}");
    as_victim(&shared, "phases", &phases, &moved).failure(&[&whose]);
    assert!(his.runs());
}

#[test]
fn no_link_is_followed_to_where_mgbd_listens_or_its_log_is() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let own = folder(&shared, "own", VICTIM, 0o700);
    let link = shared.path("tmp/mgb-link");
    symlink(&own, &link).unwrap();
    let said = as_victim(&shared, "mgb", &["run", "true"], &link.join("mgbd.sock"));
    said.failure(&["mgb-link", "is reached by a link"]);
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "nothing is made there");
    let precious = own.join("precious");
    fs::write(&precious, "").unwrap();
    chown(&precious, Some(VICTIM), None).unwrap();
    let socket = own.join("mgbd.sock");
    for ending in [".log", ".starting", ".lock"] {
        let file = own.join(format!("mgbd.sock{ending}"));
        let _ = fs::remove_file(&file);
        symlink(&precious, &file).unwrap();
        as_victim(&shared, "mgb", &["run", "true"], &socket).failure(&[&format!("mgbd.sock{ending}")]);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "", "{ending}");
        fs::remove_file(&file).unwrap();
    }
}
