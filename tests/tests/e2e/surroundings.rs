//! What mgbd does where the machine has nothing left: it says what is missing, or goes on without it. Only
//! root can make such a place; elsewhere these tests say so and are left out.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{Ended, RunningProgram, run};
use mgb_tests::wait;

const MIB: u64 = 1 << 20;

/// Runs a script in a mount namespace of its own; `None`: only root can. It has mgbd as `$MGBD`, mgb as
/// `$COMMAND` and a program that was built with MGB as `$PROGRAM`.
fn in_own_mounts(node: &PrivateNode, script: &str) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount");
        return None;
    }
    let mut command: Command = node.command("unshare", &["-m", "sh", "-c", script]);
    command.env("MGBD", bin("mgbd")).env("COMMAND", bin("mgb"));
    command.env("PROGRAM", built::program("vecadd"));
    Some(run(&mut command))
}

#[test]
fn without_room_for_a_view_it_says_so_and_does_not_start() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let script = "mount -t tmpfs -o size=64k none /dev/shm && exec timeout 20 $MGBD";
    if let Some(ended) = in_own_mounts(&node, script) {
        ended.failure(&["failed to make the node view", "is /dev/shm there and writable?"]);
    }
}

#[test]
fn with_a_full_disk_it_says_so_and_does_not_start() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let script = "mkdir full && mount -t tmpfs -o size=16k,mode=755 none full && cat /dev/zero > full/fill
        MGB_SOCKET=$PWD/full/mgbd.sock exec timeout 20 $MGBD";
    if let Some(ended) = in_own_mounts(&node, script) {
        ended.failure(&["full/mgbd.sock", "No space left on device"]);
    }
}

#[test]
fn a_disk_that_fills_up_under_it_harms_nobody() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    // Killed, the next one has no room for its note, nor for what it remembers.
    let script =
        "mkdir full && mount -t tmpfs -o size=256k,mode=755 none full && export MGB_SOCKET=$PWD/full/mgbd.sock
        $MGBD > log 2>&1 & sleep 1
        export MGB_SOCKET=$PWD/full/mgbd.sock
        MGB=require $PROGRAM 1000 || exit 1
        cat /dev/zero > full/fill 2> errors
        MGB=require $PROGRAM 1000 || exit 2
        kill -9 $!
        MGB=require $PROGRAM 1000 || exit 3
        $COMMAND stop || exit 4
        cat log";
    if let Some(ended) = in_own_mounts(&node, script) {
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert_eq!(ended.stdout.matches("PASS").count(), 3, "{ended:?}");
    }
}

#[test]
fn few_descriptors_are_enough_for_few_programs() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let script = "ulimit -n 300; $MGBD > log 2>&1 & sleep 1
        for one in 1 2 3 4 5 6 7 8; do MGB=require $PROGRAM 1000; done
        $COMMAND stop; cat log";
    if let Some(ended) = in_own_mounts(&node, script) {
        assert_eq!(ended.stdout.matches("PASS").count(), 8, "{ended:?}");
    }
}

/// A program in a PID namespace of its own, as containers have them: it sees none of the node's processes.
fn in_own_pids(node: &PrivateNode, program: &str, arguments: &[&str]) -> Command {
    let path = built::program(program);
    let inside = [
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        &*path.to_string_lossy(),
    ];
    let mut command = node.command("unshare", &[&inside, arguments].concat());
    command.env("MGB", "require");
    command
}

#[test]
fn programs_in_pid_namespaces_are_served_and_their_deaths_seen() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can make PID namespaces here");
        return;
    }
    let node = PrivateNode::start("1x64MiB:ctx=2MiB", "mgb");
    // Three of which two fit at once.
    let three = [(); 3].map(|()| {
        let arguments = ["24", "4", "200", "wait", "50", "8"];
        RunningProgram::start(&mut in_own_pids(&node, "phases", &arguments))
    });
    for one in three {
        let ended = one.end();
        assert!(ended.success().contains("PASS"));
    }
    node.wait_until_empty();
    // Each was known by the number that the node knows it by.
    let killed = RunningProgram::start(&mut in_own_pids(
        &node,
        "phases",
        &["24", "1", "60000", "wait", "50", "8"],
    ));
    let pid = wait::until("it holds memory", || {
        let view = node.view();
        let held = view.tasks.iter().find(|task| task.reserved_bytes > 0);
        held.map(|task| task.pid)
    });
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", killed.pid()));
    assert_eq!(children.unwrap_or_default().trim(), pid.to_string());
    let asked = run(&mut node.mgb(&["suspend", &pid.to_string()]));
    asked.success();
    drop(killed);
    node.wait_until_empty();
    assert!(
        run(&mut in_own_pids(&node, "vecadd", &["1000"]))
            .success()
            .contains("PASS")
    );
}

/// A control group that limits memory, of version 2 or 1; removed when dropped.
struct Group {
    path: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Group {
    fn new() -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let mounts = mounts.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let controls_memory = fields[3].split(',').any(|option| option == "memory");
            match fields[2] {
                "cgroup" if controls_memory => {
                    Some((fields[1], "memory.limit_in_bytes", "memory.usage_in_bytes"))
                }
                "cgroup2" => Some((fields[1], "memory.max", "memory.current")),
                _ => None,
            }
        });
        mounts.into_iter().find_map(|(root, limit, usage)| {
            let _ = std::fs::write(format!("{root}/cgroup.subtree_control"), "+memory");
            let path = Path::new(root).join(format!("mgb-test-{}", std::process::id()));
            std::fs::create_dir(&path).ok()?;
            let group = Group { path, limit, usage };
            group.path.join(limit).exists().then_some(group)
        })
    }

    /// What it has, but for cached files, which give way.
    fn bytes(&self) -> u64 {
        let read = |name: &str| std::fs::read_to_string(self.path.join(name)).expect("it counts memory");
        let all: u64 = read(self.usage).trim().parse().expect("a number");
        let stat = read("memory.stat");
        let of = |name: &str| {
            let values = stat.lines().filter_map(|line| line.split_once(' '));
            let values = values.filter(|(field, _)| field.trim_start_matches("total_") == name);
            values
                .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
                .max()
                .unwrap_or(0)
        };
        let cached = of("inactive_file") + of("active_file");
        all.saturating_sub(cached)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[test]
fn what_a_control_group_has_no_room_for_stays_on_its_gpu() {
    let Some(group) = Group::new() else {
        eprintln!("left out: no control group with a limit of memory can be made here");
        return;
    };
    let node = PrivateNode::start("1x64MiB:ctx=2MiB", "mgb");
    // It is idle until the file is there, and has all the host memory by then that it wants.
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.path.display());
    let program = built::program("workspace").to_string_lossy().into_owned();
    let file = node.folder().join("goes-on").to_string_lossy().into_owned();
    let idle = ["-c", &enter, "sh", &program, "40", "1", &file, &file];
    let idle = RunningProgram::start(node.command("sh", &idle).env("MGB", "require"));
    let holds = || {
        node.view()
            .tasks
            .iter()
            .any(|task| task.held_bytes >= 40 * MIB)
            .then_some(())
    };
    wait::until("it holds its memory", holds);
    // It has its room before it has filled its memory on the host.
    let mut before = 0;
    wait::until("it has all its host memory", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = group.bytes();
        let is_still = now.abs_diff(std::mem::replace(&mut before, now)) < MIB;
        is_still.then_some(())
    });
    let limit = before + 16 * MIB;
    std::fs::write(group.path.join(group.limit), limit.to_string()).expect("root may limit it");
    let phases = built::program("phases");
    let waits = RunningProgram::start(&mut node.command(&phases, &["40", "1", "1", "wait", "10", "8"]));
    wait::until("it was asked to make room", || {
        let counts = node.view().counts;
        (counts.evictions_failed + counts.evicted > 0).then_some(())
    });
    std::fs::write(&file, "").expect("the node's folder can be written");
    waits.end().success();
    let idle = idle.end();
    // The kernel counts late: where it saw room, the memory has left, and nobody was killed for it.
    if node.view().counts.evicted == 0 {
        let why = "too low a limit of this process's control group";
        assert!(idle.stderr.contains(why), "{idle:?}");
    }
    idle.success();
}
