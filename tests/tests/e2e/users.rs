//! One mgbd for several users. Only root can be several users: elsewhere these tests say so and are left out.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_tests::built;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::prefix::{bin, prefix, softgpu_libraries};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;
use serde_json::Value;

/// Two users that nobody is.
pub(crate) const USERS: [u32; 2] = [20_001, 20_002];

/// A node whose folder others can enter, with copies of what they run: the repository may be out of their
/// reach.
pub(crate) struct SharedNode {
    pub(crate) node: PrivateNode,
}

impl SharedNode {
    /// `None`: this is not root.
    pub(crate) fn start(devices: &str, options: &[&str]) -> Option<SharedNode> {
        let mut shared = SharedNode::without_mgbd(devices)?;
        shared.node.start_mgbd_with("mgb", options);
        Some(shared)
    }

    /// As [`SharedNode::start`], but for the mgbd.
    pub(crate) fn without_mgbd(devices: &str) -> Option<SharedNode> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root can start programs of several users");
            return None;
        }
        let node = PrivateNode::without_mgbd(devices);
        let folder = node.folder().to_owned();
        let open =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
        open(&folder, 0o755);
        open(&node.write("softgpu.state", ""), 0o666);
        for inner in ["run", "lib"] {
            fs::create_dir(folder.join(inner)).expect("a folder can be made");
            open(&folder.join(inner), 0o755);
        }
        let libraries = fs::read_dir(softgpu_libraries()).expect("it is there").flatten();
        let libraries = libraries.map(|entry| entry.path());
        for file in libraries.chain([prefix().join("lib/libmgb_rt.so")]) {
            let copy = folder.join("lib").join(file.file_name().expect("it has a name"));
            // Names of one library stay names of one.
            if let Ok(target) = fs::read_link(&file) {
                symlink(target, &copy).expect("a link can be made");
                continue;
            }
            fs::copy(&file, &copy).expect("a file can be copied");
            open(&copy, 0o755);
        }
        for file in [built::program("phases"), bin("mgb")] {
            let copy = folder.join(file.file_name().expect("it has a name"));
            fs::copy(&file, &copy).expect("a file can be copied");
            open(&copy, 0o755);
        }
        Some(SharedNode { node })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.node.folder().join(name)
    }

    pub(crate) fn command(&self, uid: u32, name: &str, arguments: &[&str]) -> Command {
        let mut command = self.node.command(self.path(name), arguments);
        command.env("LD_LIBRARY_PATH", self.path("lib")).uid(uid).gid(uid);
        command
    }

    pub(crate) fn phases(&self, uid: u32, mib: &str, rounds: &str) -> RunningProgram {
        let arguments = [mib, rounds, "100", "wait", "10", "8"];
        let running = RunningProgram::start(self.command(uid, "phases", &arguments).env("MGB", "require"));
        wait::until("it holds room", || {
            holds(&self.node.view(), running.pid()).then_some(())
        });
        running
    }

    /// The files of all views.
    fn views(&self) -> Vec<PathBuf> {
        let note = fs::read_to_string(mgb_probe::lock_path(&self.node.socket())).unwrap();
        let note: Value = serde_json::from_str(&note).unwrap();
        let names = note["views"].as_array().unwrap().iter();
        names
            .map(|name| Path::new("/dev/shm").join(name.as_str().unwrap().trim_start_matches('/')))
            .collect()
    }

    fn status(&self, uid: u32) -> Value {
        let said = run(&mut self.command(uid, "mgb", &["status", "--json"])).success();
        serde_json::from_str(&said).expect("JSON")
    }
}

pub(crate) fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
}

/// Processes, their users and labels, as a view has them.
fn tasks(view: &Value) -> Vec<(u64, u64, String)> {
    let tasks = view["tasks"].as_array().expect("a list").iter();
    let number = |value: &Value| value.as_u64().expect("a number");
    let mut tasks: Vec<_> = tasks
        .map(|task| {
            (
                number(&task["pid"]),
                number(&task["uid"]),
                task["label"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    tasks.sort();
    tasks
}

#[test]
fn users_share_gpus_and_see_and_order_their_own_programs() {
    let Some(mut shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let programs = USERS.map(|uid| shared.phases(uid, "20", "40"));
    let pids = programs.each_ref().map(|program| u64::from(program.pid()));
    for round in 0..2 {
        for (uid, pid) in USERS.iter().zip(pids) {
            let seen = tasks(&shared.status(*uid));
            assert_eq!(seen.len(), 2, "{seen:?}");
            for (of, user, label) in seen {
                assert!(USERS.map(u64::from).contains(&user));
                assert_eq!(label.is_empty(), of != pid, "user {uid} sees {label:?} of {of}");
            }
        }
        assert!(
            tasks(&shared.status(0))
                .iter()
                .all(|(.., label)| !label.is_empty())
        );
        // So it stays under the next mgbd.
        if round == 0 {
            shared.node.replace_mgbd(Signal::KILL);
        }
    }
    let [first, second] = pids.map(|pid| pid.to_string());
    for words in [["suspend", &second], ["drain", "0"], ["move", &second]] {
        let words: Vec<&str> = words
            .into_iter()
            .chain((words[0] == "move").then_some("0"))
            .collect();
        let said = run(&mut shared.command(USERS[0], "mgb", &words));
        assert_ne!(said.code(), 0, "{said:?}");
        let why = if words[0] == "drain" {
            "root"
        } else {
            "another user"
        };
        assert!(said.stderr.contains(why), "{said:?}");
    }
    run(&mut shared.command(USERS[0], "mgb", &["suspend", &first])).success();
    assert_eq!(shared.status(USERS[0])["suspended"].as_array().unwrap().len(), 1);
    assert_eq!(shared.status(USERS[1])["suspended"].as_array().unwrap().len(), 0);
    run(&mut shared.command(USERS[0], "mgb", &["resume", &first])).success();
    programs.into_iter().for_each(is_right);
    shared.node.wait_until_empty();
}

/// Numbers of jobs under Slurm are known to all: who says another user's has no part in it.
#[test]
fn who_says_another_user_s_job_has_no_part_in_it() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let job = format!("{:016x}", mgb_probe::slurm_step(4660, 0));
    let start = |uid| {
        let arguments = ["8", "40", "100", "wait", "10", "8"];
        let mut command = shared.command(uid, "phases", &arguments);
        let program = RunningProgram::start(command.env("MGB", "require").env("MGB_JOB", &job));
        wait::until("it holds room", || {
            holds(&shared.node.view(), program.pid()).then_some(())
        });
        program
    };
    let [own, others] = USERS.map(start);
    let order = |uid, what| run(&mut shared.command(uid, "mgb", &[what, &job]));
    order(USERS[0], "suspend").success();
    let suspended = || -> Vec<u32> {
        let view = shared.node.view();
        view.suspended.iter().map(|one| one.pid).collect()
    };
    assert_eq!(suspended(), [own.pid()]);
    order(USERS[1], "resume");
    assert_eq!(suspended(), [own.pid()]);
    // The number goes on to mean each one's own.
    order(USERS[1], "suspend").success();
    order(USERS[0], "resume").success();
    assert_eq!(suspended(), [others.pid()]);
    order(USERS[1], "resume").success();
    [own, others].into_iter().for_each(is_right);
}

#[test]
fn nobody_reads_or_replaces_what_is_not_his() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let program = shared.phases(USERS[0], "8", "20");
    let views = shared.views();
    assert_eq!(views.len(), 2, "one for root, one for the user");
    let mut modes = Vec::new();
    for view in &views {
        let metadata = fs::metadata(view).unwrap();
        assert_eq!(metadata.uid(), 0);
        modes.push(metadata.mode() & 0o777);
    }
    modes.sort_unstable();
    assert_eq!(modes, [0o400, 0o440], "the second one has an access list");
    let socket = shared.node.socket();
    let denied = |script: String| {
        let mut command = Command::new("sh");
        let said = run(command.args(["-c", &script]).uid(USERS[1]).gid(USERS[1]));
        assert_ne!(said.code(), 0, "{script}: {said:?}");
    };
    for view in &views {
        denied(format!("cat {}", view.display()));
        // Nor does he whose it is shorten it, which would end mgbd at its next write.
        for words in ["truncate -s 0", "chmod 600", "rm -f"] {
            let mut command = Command::new("sh");
            let script = format!("{words} {}", view.display());
            let said = run(command.args(["-c", &script]).uid(USERS[0]).gid(USERS[0]));
            assert_ne!(said.code(), 0, "{script}: {said:?}");
        }
    }
    denied(format!("rm -f {0} && test ! -e {0}", socket.display()));
    for ending in [".lock", ".private/holder.lock", ".log"] {
        denied(format!("cat {}{ending}", socket.display()));
    }
    // The holder listens where nobody else gets.
    let private = shared.node.socket().with_file_name("mgbd.sock.private");
    assert_eq!(fs::metadata(private).unwrap().mode() & 0o777, 0o700);
    has_its_own_channel_alone(&shared, program.pid());
    // Nor does its channel's memory open for another user.
    denied(format!("ls /proc/{}/fd", program.pid()));
    denied(format!("kill {}", program.pid()));
    is_right(program);
}

/// What a process has open or mapped that is memory without a name in the file system, by its number.
fn memories(pid: u32) -> Vec<(u64, String)> {
    let entries = ["fd", "map_files"].map(|name| fs::read_dir(format!("/proc/{pid}/{name}")));
    let files = entries.into_iter().flatten().flatten().flatten();
    let memory = |file: fs::DirEntry| {
        let name = fs::read_link(file.path()).ok()?.to_str()?.to_owned();
        let inode = fs::metadata(file.path()).ok()?.ino();
        name.starts_with("/memfd:").then_some((inode, name))
    };
    files.filter_map(memory).collect()
}

/// A client has its channel's memory; the journal and others' channels it has not.
fn has_its_own_channel_alone(shared: &SharedNode, client: u32) {
    let other = shared.phases(USERS[1], "8", "20");
    let [own, others, mgbds] = [client, other.pid(), shared.node.mgbd_pid()].map(memories);
    let is_of = |all: &[(u64, String)], one: &(u64, String)| all.iter().any(|of| of.0 == one.0);
    let journals: Vec<_> = mgbds
        .iter()
        .filter(|(_, name)| name.contains("journal"))
        .collect();
    assert!(!journals.is_empty(), "{mgbds:?}");
    for journal in journals {
        assert!(!is_of(&own, journal) && !is_of(&others, journal), "{own:?}");
    }
    assert!(own.iter().any(|one| is_of(&mgbds, one)), "{own:?} {mgbds:?}");
    assert!(own.iter().all(|one| !is_of(&others, one)), "{own:?} {others:?}");
    is_right(other);
}

#[test]
fn a_view_that_logind_removes_is_made_again() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "all"]) else {
        return;
    };
    let program = shared.phases(USERS[0], "8", "20");
    for uid in [USERS[0], 0] {
        // As when the last session of a user ends whose programs run on (RemoveIPC=yes).
        let mode = if uid == 0 { 0o400 } else { 0o440 };
        let is_his = |view: &&PathBuf| fs::metadata(view).is_ok_and(|file| file.mode() & 0o777 == mode);
        let views = shared.views();
        fs::remove_file(views.iter().find(is_his).expect("he has one")).expect("it can be removed");
        let seen = tasks(&shared.status(uid));
        assert!(
            seen.len() == 1 && !seen[0].2.is_empty(),
            "user {uid} sees {seen:?}"
        );
        assert!(shared.views().iter().all(|view| view.exists()));
    }
    is_right(program);
}

#[test]
fn a_group_is_served_and_others_are_not() {
    let Some(shared) = SharedNode::start("1x64MiB", &["--serve", "group:daemon"]) else {
        return;
    };
    let socket = shared.node.socket();
    let metadata = fs::metadata(&socket).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o660);
    let refused = run(&mut shared.command(USERS[0], "mgb", &["status"]));
    assert!(
        refused.code() == 3 && refused.stderr.contains("permission"),
        "{refused:?}"
    );
    let mut member = shared.command(USERS[0], "mgb", &["status"]);
    run(member.gid(metadata.gid())).success();
}

#[test]
fn a_folder_that_others_cannot_enter_is_named() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let node = PrivateNode::without_mgbd("1x64MiB");
    fs::set_permissions(node.folder(), Permissions::from_mode(0o700)).unwrap();
    let said = run(&mut node.mgbd(&["--serve", "all"]));
    said.failure(&["cannot be entered by others"]);
    let said = run(&mut node.mgbd(&["--serve", "group:no such group"]));
    said.failure(&["there is no group no such group"]);
}
