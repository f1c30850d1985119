//! Root of a container: root's number and no more. Only root makes containers here without a user namespace.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

use super::users::{SharedNode, USERS, is_right};

/// Accounts that are control groups begin here.
const FIRST_GROUP: u32 = 0xe000_0000;
/// Has no capability, and gets none.
const WITHOUT_RIGHTS: [&str; 4] = [
    "setpriv",
    "--no-new-privs",
    "--bounding-set=-all",
    "--inh-caps=-all",
];
/// As podman and docker do without a user namespace.
const CONTAINER: [&str; 6] = ["unshare", "--pid", "--fork", "--net", "--ipc", "--mount-proc"];

/// A program of the node's, by root, behind other commands.
fn behind(shared: &SharedNode, words: &[&str], name: &str, arguments: &[&str]) -> Command {
    let program = shared.path(name);
    let mut all = words[1..].to_vec();
    all.push(program.to_str().expect("paths of tests are UTF-8"));
    all.extend(arguments);
    let mut command = shared.node.command(words[0], &all);
    command
        .env("LD_LIBRARY_PATH", shared.path("lib"))
        .env("MGB", "require");
    command
}

#[test]
fn a_container_s_root_is_no_administrator_and_not_root_s_account() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let others = shared.phases(USERS[0], "8", "40");
    let pid = others.pid().to_string();
    let contained = [&CONTAINER[..], &WITHOUT_RIGHTS].concat();
    let in_user_namespace = ["unshare", "--user", "--map-root-user"];
    for words in [&contained[..], &CONTAINER, &WITHOUT_RIGHTS, &in_user_namespace] {
        let order = |arguments: &[&str]| run(&mut behind(&shared, words, "mgb", arguments));
        order(&["drain", "0"]).failure(&["outside of containers"]);
        order(&["suspend", &pid]).failure(&["another user"]);
    }
    assert!(shared.node.view().suspended.is_empty() && !shared.node.view().gpus[0].drained);
    // What it runs is charged to an account of its own.
    let arguments = ["8", "20", "100", "wait", "10", "8"];
    let program = RunningProgram::start(&mut behind(&shared, &contained, "phases", &arguments));
    let uid = wait::until("it holds room", || {
        let view = shared.node.view();
        view.tasks
            .iter()
            .map(|task| task.uid)
            .find(|uid| *uid != USERS[0])
    });
    assert!(uid >= FIRST_GROUP, "{uid}");
    is_right(program);
    // Root itself is what it was.
    run(&mut shared.node.mgb(&["suspend", &pid])).success();
    run(&mut shared.node.mgb(&["resume", &pid])).success();
    assert!(holds(&shared.node.view(), others.pid()));
    is_right(others);
    run(&mut shared.node.mgb(&["drain", "0"])).success();
    assert!(shared.node.view().gpus[0].drained);
}

/// In a user namespace without numbers mgbd's own user has the number of everybody else.
#[test]
fn where_nobody_has_a_number_mgbd_takes_nobody_for_its_user() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mgbd = bin("mgbd");
    let unnumbered = |options: &[&str]| {
        let words = [
            &[
                "--user",
                mgbd.to_str().expect("paths of tests are UTF-8"),
                "--no-mps",
            ],
            options,
        ]
        .concat();
        node.command("unshare", &words)
    };
    let ended = run(&mut unnumbered(&["--idle-exit", "1"]));
    if ended.stderr.contains("unshare:") {
        eprintln!("left out: no user namespaces here");
        return;
    }
    ended.failure(&["has no number in this user namespace", "serve all"]);
    // Serving all it says whom it cannot tell apart.
    let ended = run(&mut unnumbered(&["--serve", "all", "--idle-exit", "1"]));
    assert!(ended.stderr.contains("leaves users out"), "{ended:?}");
}

/// The node's root has no number in a container's user namespace. Neither has a user who makes a file in
/// `/tmp` for containers to find.
#[test]
fn state_of_a_user_without_a_number_is_not_taken_from_a_folder_for_all() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    for (mode, is_taken) in [(0o1777, false), (0o755, true)] {
        let folder = shared.path(&format!("state-{mode:o}"));
        fs::create_dir(&folder).expect("a folder can be made");
        fs::set_permissions(&folder, Permissions::from_mode(mode)).expect("its mode can be set");
        let state = folder.join("state");
        fs::write(&state, "").expect("a file can be made");
        fs::set_permissions(&state, Permissions::from_mode(0o666)).expect("its mode can be set");
        chown(&state, Some(USERS[1]), None).expect("root can give a file away");
        let words = ["unshare", "--user", "--map-root-user"];
        let mut program = behind(&shared, &words, "phases", &["1", "1", "0", "wait", "1", "1"]);
        program.env("SOFTGPU_STATE", &state).env("MGB", "off");
        let ended = run(&mut program);
        assert_eq!(ended.code() == 0, is_taken, "{mode:o}: {ended:?}");
        assert_eq!(
            ended.stderr.contains("not a plain file of this user or of root"),
            !is_taken,
            "{ended:?}"
        );
    }
}
