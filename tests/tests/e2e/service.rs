//! mgbd as a service: what it tells systemd, the socket that systemd makes, and settings in a file.

use std::fs::Permissions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mgb_probe::Client;
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

/// The next message to systemd.
fn heard(systemd: &UnixDatagram) -> String {
    let mut text = [0; 4096];
    let length = systemd.recv(&mut text).expect("mgbd says something in time");
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[test]
fn systemd_hears_that_mgbd_is_ready_lives_and_stops() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let socket = node.folder().join("notify");
    let systemd = UnixDatagram::bind(&socket).expect("a socket");
    systemd
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let mut command = node.mgbd(&[]);
    let mgbd = RunningProgram::start(
        command
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", "200000"),
    );
    let ready = heard(&systemd);
    assert!(
        ready.contains("READY=1") && ready.contains("sharing 1 GPUs"),
        "{ready}"
    );
    assert!(
        Client::observe(&node.socket()).is_ok(),
        "it is ready when it says so"
    );
    for _ in 0..3 {
        assert_eq!(heard(&systemd), "WATCHDOG=1\n");
    }
    mgbd.signal(Signal::TERM);
    let mut last = heard(&systemd);
    while last.contains("WATCHDOG") {
        last = heard(&systemd);
    }
    assert_eq!(last, "STOPPING=1\n");
    assert_eq!(mgbd.end().code(), 0);
}

#[test]
fn programs_that_come_before_mgbd_wait_at_systemds_socket() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let listener = systemds_socket(&node);
    let program = RunningProgram::start(node.command(built::program("vecadd"), &[]).env("MGB", "require"));
    std::thread::sleep(Duration::from_millis(300));
    let mgbd = RunningProgram::start(&mut activated(&node, listener));
    let ended = program.end();
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
    mgbd.signal(Signal::TERM);
    assert_eq!(mgbd.end().code(), 0);
    assert!(node.socket().exists(), "the name is systemd's");
}

#[test]
fn systemds_socket_keeps_its_name_when_mgbd_is_killed() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let listener = systemds_socket(&node);
    let mgbd = RunningProgram::start(&mut activated(&node, listener.try_clone().expect("a descriptor")));
    wait::until("mgbd is ready", || Client::observe(&node.socket()).ok().map(drop));
    mgbd.signal(Signal::KILL);
    drop(mgbd);
    // It clears away what mgbd left.
    wait::until("the holder ends", || node.holder_pid().is_none().then_some(()));
    assert!(node.socket().exists(), "the name is systemd's");
    let lock = mgb_probe::lock_path(&node.socket());
    assert_eq!(std::fs::read_to_string(lock).expect("it stays"), "");
    let program = RunningProgram::start(node.command(built::program("vecadd"), &[]).env("MGB", "require"));
    let mgbd = RunningProgram::start(&mut activated(&node, listener));
    let ended = program.end();
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
    mgbd.signal(Signal::TERM);
    assert_eq!(mgbd.end().code(), 0);
}

#[test]
fn an_mgbd_that_a_service_has_started_is_started_again() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    // Built before: the holder waits for 5 s only.
    let vecadd = built::program("vecadd");
    // As a job of cron's has it: systemd has started cron.
    let mut command = node.mgbd(&[]);
    command.env("INVOCATION_ID", "0123456789abcdef0123456789abcdef");
    let mgbd = RunningProgram::start(command.env("SYSTEMD_EXEC_PID", "1"));
    let client = wait::until("mgbd is ready", || Client::observe(&node.socket()).ok());
    let old = client.hello().mgbd_pid;
    mgbd.signal(Signal::KILL);
    drop(mgbd);
    let ended = run(node.command(vecadd, &[]).env("MGB", "require"));
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
    let client = wait::until("another mgbd", || Client::observe(&node.socket()).ok());
    let next = client.hello().mgbd_pid;
    assert_ne!(next, old);
    run(&mut node.mgb(&["stop"])).success();
}

/// Whether the holder of a node's mgbd was told how to start it again.
fn starts_again(node: &PrivateNode) -> bool {
    let holder = wait::until("a holder", || node.holder_pid());
    let line = std::fs::read(format!("/proc/{holder}/cmdline")).expect("it runs");
    // mgbd hold SOCKET CONTROL, and how.
    line.split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .count()
        > 4
}

#[test]
fn who_is_started_again_by_systemd_is_not_by_its_holder() {
    let mgbd = bin("mgbd");
    let mgbd = mgbd.display();
    let itself = format!("SYSTEMD_EXEC_PID=$$ exec {mgbd}");
    // A wrapper, which systemd starts again in its place.
    let wrapped = format!("SYSTEMD_EXEC_PID=$$ {mgbd}; exit $?");
    let ready = format!("SYSTEMD_EXEC_PID=$$ NOTIFY_SOCKET=$PWD/notify sh -c '{mgbd}; exit $?'; exit $?");
    // A job of cron's.
    let other = format!("SYSTEMD_EXEC_PID=1 {mgbd}; exit $?");
    for (line, expected) in [(itself, false), (wrapped, false), (ready, false), (other, true)] {
        let node = PrivateNode::without_mgbd("1x64MiB");
        let running = RunningProgram::start(&mut node.command("sh", &["-c", &line]));
        wait::until("mgbd is ready", || Client::observe(&node.socket()).ok().map(drop));
        assert_eq!(starts_again(&node), expected, "{line}");
        run(&mut node.mgb(&["stop"])).success();
        assert_eq!(running.end().code(), 0);
    }
}

#[test]
fn whom_the_next_mgbd_serves_its_socket_serves() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    std::fs::set_permissions(node.folder(), Permissions::from_mode(0o755)).expect("it is ours");
    for (serve, then) in [("all", 0o666), ("own", 0o600), ("all", 0o666)] {
        let mgbd = RunningProgram::start(&mut node.mgbd(&["--serve", serve, "--no-restart"]));
        wait::until("mgbd is ready", || {
            let client = Client::observe(&node.socket()).ok()?;
            (client.hello().mgbd_pid == mgbd.pid()).then_some(())
        });
        assert_eq!(mode(&node.socket()), then, "{serve}");
        mgbd.signal(Signal::USR1);
        drop(mgbd);
    }
}

/// A socket at which systemd listens for mgbd.
fn systemds_socket(node: &PrivateNode) -> OwnedFd {
    let listener = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a socket");
    rustix::net::bind(&listener, &SocketAddrUnix::new(node.socket()).unwrap()).expect("it is free");
    rustix::net::listen(&listener, 64).expect("it listens");
    listener
}

/// mgbd as systemd starts it for a socket.
fn activated(node: &PrivateNode, listener: OwnedFd) -> Command {
    // The shell has the pid that mgbd has then.
    let line = format!(
        "LISTEN_PID=$$ SYSTEMD_EXEC_PID=$$ LISTEN_FDS=1 exec {}",
        bin("mgbd").display()
    );
    let mut command = node.command("sh", &["-c", &line]);
    as_third(&mut command, listener);
    command
}

/// Gives a command this descriptor as its third.
fn as_third(command: &mut Command, file: OwnedFd) {
    // SAFETY: dup2 is async-signal-safe, and the descriptor lives in the closure.
    unsafe {
        command.pre_exec(move || match libc::dup2(file.as_raw_fd(), 3) {
            3 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

#[test]
fn settings_are_taken_from_a_file_and_checked() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    let file = node.write(
        "mgbd.toml",
        "policy = \"sa\"\ncapacity = \"32MiB\"\nno-move = true\n",
    );
    let file = file.to_str().unwrap();
    let said = run(&mut node.mgbd(&["--settings", file, "--check"])).success();
    assert!(said.starts_with("# The settings are right"), "{said}");
    for line in [
        "policy = \"sa\"\n",
        "capacity = \"32MiB\"\n",
        "no-move = true\n",
        "no-swap = false  # by default\n",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    // What is printed is itself a file of settings, which says the same.
    let printed = node.write("printed.toml", &said);
    let again = run(&mut node.mgbd(&["--settings", printed.to_str().unwrap(), "--check"])).success();
    assert_eq!(
        again.replace("  # by default", ""),
        said.replace("  # by default", "")
    );
    node.start_mgbd_with("mgb", &["--settings", file]);
    let view = node.view();
    // The command line goes before the file.
    assert_eq!((&*view.policy, view.gpus[0].gpu.usable_bytes), ("mgb", 32 << 20));
    for (text, why) in [
        ("patience = \"soon\"", "invalid value 'soon'"),
        ("polcy = \"mgb\"", "unexpected argument '--polcy'"),
        ("queue", "is no TOML"),
        ("serve = 1.5", "serve is neither"),
    ] {
        let file = node.write("wrong.toml", text);
        let said = run(&mut node.mgbd(&["--check", "--settings", file.to_str().unwrap()]));
        assert_eq!(said.code(), 2, "{said:?}");
        said.failure(&[why, "wrong.toml"]);
    }
}

/// Memory that may not leave leaves once the settings allow it, without a restart; a mistake changes nothing, and what
/// needs a restart is named.
#[test]
fn settings_are_read_again_while_programs_run() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    let file = node.write("mgbd.toml", "swap-memory = \"1MiB\"\n");
    node.start_mgbd_with("mgb", &["--settings", file.to_str().unwrap()]);
    let arguments = ["40", "10", "300", "wait", "10", "8"];
    let start = || {
        let mut command = node.command(built::program("phases"), &arguments);
        RunningProgram::start(command.env("MGB", "require"))
    };
    let first = start();
    wait::until("the first has its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    let second = start();
    wait::until("the second waits", || {
        (node.view().queue.first()?.waited_ms > 1000).then_some(())
    });
    assert_eq!(node.view().counts.evicted, 0, "the host takes 1 MiB");
    node.write("mgbd.toml", "swap-memory = \"half\"\n");
    node.signal_mgbd(Signal::HUP);
    node.write(
        "mgbd.toml",
        "swap-memory = \"1GiB\"\ncapacity = \"32MiB\"\npatience = 7\n",
    );
    node.signal_mgbd(Signal::HUP);
    wait::until("the first one's memory leaves for the second", || {
        (node.view().counts.evicted > 0).then_some(())
    });
    for program in [first, second] {
        assert!(program.end().success().ends_with("PASS\n"));
    }
    assert_eq!(node.view().gpus[0].gpu.usable_bytes, 64 << 20, "as at the start");
    let said = node.stop_mgbd().stderr;
    assert!(
        said.contains("capacity has changed: it takes effect at mgbd's next start"),
        "{said}"
    );
    assert!(!said.contains("patience has changed"), "{said}");
}

/// A file of settings with a mistake is named, and nothing changes.
#[test]
fn settings_with_a_mistake_change_nothing() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    let file = node.write("mgbd.toml", "patience = 7\n");
    node.start_mgbd_with("mgb", &["--settings", file.to_str().unwrap()]);
    let mut said = Vec::new();
    for text in ["patience = \"soon\"\n", "patienc = 7\n", "patience ="] {
        node.write("mgbd.toml", text);
        node.signal_mgbd(Signal::HUP);
        // One signal after the other: several at once count as one.
        std::thread::sleep(std::time::Duration::from_millis(300));
        said.push(text);
    }
    assert!(node.view().tasks.is_empty(), "it runs");
    let log = node.stop_mgbd().stderr;
    assert_eq!(
        log.matches("the settings stay as they were").count(),
        said.len(),
        "{log}"
    );
    assert!(log.contains("mgbd.toml: invalid value 'soon'"), "{log}");
}

#[test]
fn the_units_are_right_as_far_as_systemd_can_say() {
    if !std::path::Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("left out: no systemd-analyze here");
        return;
    }
    let node = PrivateNode::without_mgbd("1x64MiB");
    let units = mgb_tests::prefix::repository().join("systemd");
    for name in ["mgbd.service", "mgbd.socket", "mgb-driver.service"] {
        let text = std::fs::read_to_string(units.join(name)).expect("it is there");
        node.write(
            name,
            &text.replace("/usr/local/bin/mgbd", bin("mgbd").to_str().unwrap()),
        );
    }
    let service = node.folder().join("mgbd.service");
    let said = run(Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(service));
    let about_ours = said
        .stderr
        .lines()
        .filter(|line| line.contains("mgbd"))
        .collect::<Vec<_>>();
    assert_eq!(about_ours, Vec::<&str>::new());
}
