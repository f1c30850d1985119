//! Who is root in a container is a stranger to what outlives mgbd. Only root can make such places here;
//! elsewhere these tests say so and are left out.

use std::fs;
use std::path::Path;
use std::process::Command;

use mgb_probe::Client;
use mgb_tests::built;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;

/// Speaks to every socket in a folder as an mgbd that takes the holder over, and prints what each says: the
/// names of the messages, and how many descriptors came with them.
const ATTACK: &str = r#"
import array, json, os, socket, stat, sys

def adopt(version, shape):
    words = [{"Unix": list(word.encode())} for word in ("-c", "touch " + sys.argv[2])]
    again = {"program": "/bin/sh", "arguments": words, "folder": "/"}
    own = {"again": again} if shape == "old" else {"restarts": True, "again": again}
    return {"Adopt": {"version": version, "pid": os.getpid(), "mps": False, "users": False, **own}}

answers = {}
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        if not stat.S_ISSOCK(os.lstat(path).st_mode) or sys.argv[3] not in path:
            continue
        said = answers.setdefault(os.path.relpath(path, sys.argv[1]), [])
        for version, shape in ((2, "old"), (3, "new"), (4, "new")):
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            line.settimeout(1)
            try:
                line.connect(path)
                for message in ("Who", adopt(version, shape)):
                    line.send(json.dumps(message).encode())
                while True:
                    text, files, _, _ = line.recvmsg(65536, socket.CMSG_SPACE(4 * 64))
                    if not text:
                        break
                    message = json.loads(text)
                    said.append(next(iter(message)) if isinstance(message, dict) else message)
                    said.extend("a descriptor" for _ in files)
            except OSError as error:
                said.append(type(error).__name__)
            line.close()
print(json.dumps(answers))
"#;

/// Places in which root is uid 0 without a capability.
const PLACES: [(&str, &[&str]); 3] = [
    (
        "namespaces of users, processes, the network and IPC",
        &[
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--kill-child",
            "--net",
            "--ipc",
            "--mount-proc",
        ],
    ),
    (
        "namespaces of processes, the network and IPC",
        &[
            "--pid",
            "--fork",
            "--kill-child",
            "--net",
            "--ipc",
            "--mount-proc",
        ],
    ),
    (
        "the node's namespaces of users and processes",
        &["--net", "--ipc"],
    ),
];

/// An attack from such a place on the sockets whose paths have this in them.
fn attack(node: &PrivateNode, place: &[&str], part: &str, mark: &Path) -> Command {
    let drop = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--no-new-privs",
    ];
    let mut command = node.command("unshare", &[place, &drop, &["python3", "-c", ATTACK]].concat());
    command.arg(node.folder()).arg(mark).arg(part);
    command
}

#[test]
fn who_is_root_in_a_container_gets_nothing_that_outlives_mgbd() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can be root in a container");
        return;
    }
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    // So that there is none for a while, though a program needs one.
    node.start_mgbd_with("mgb", &["--no-restart"]);
    let mark = node.folder().join("mark");
    let phases = built::program("phases");
    let arguments = ["20", "600", "200", "wait", "10", "8"];
    let mut program = RunningProgram::start(node.command(phases, &arguments).env("MGB", "require"));
    wait::until("it holds room", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    let before = node.view();
    for is_there in [true, false] {
        if !is_there {
            node.kill_mgbd();
        }
        for (what, place) in PLACES {
            // Without an mgbd, to the holder alone, whose patience has an end: who connects to mgbd waits.
            let part = if is_there { "" } else { "holder" };
            let said = run(&mut attack(&node, place, part, &mark)).success();
            let answers: serde_json::Value = serde_json::from_str(&said).expect("JSON");
            let answers = answers.as_object().expect("an object");
            assert!(answers.keys().any(|path| path.contains("holder")), "{answers:?}");
            for (socket, said) in answers {
                let said = said.as_array().expect("a list");
                assert!(said.iter().all(is_nothing), "in {what}, {socket} said {said:?}");
            }
            assert!(!mark.exists(), "in {what}, a program was run");
        }
    }
    node.start_mgbd("mgb");
    let after = node.view();
    assert_eq!(after.gpus[0].reserved_bytes, before.gpus[0].reserved_bytes);
    assert!(program.runs() && holds(&after, program.pid()));
    drop(program);
    node.wait_until_empty();
}

/// Whether an answer is none: of the holder, of mgbd, and of the socket of one that is gone, at which clients
/// wait.
fn is_nothing(word: &serde_json::Value) -> bool {
    let nothing = [
        "Refused",
        "refused",
        "TimeoutError",
        "ConnectionResetError",
        "BrokenPipeError",
    ];
    word.as_str().is_some_and(|word| nothing.contains(&word))
}

#[test]
fn containers_need_a_folder_with_nothing_but_the_socket() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount");
        return;
    }
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let clients = node.folder().join("clients");
    let names = || -> Vec<String> {
        let names = fs::read_dir(&clients).expect("it is there").flatten();
        names
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    };
    assert_eq!(names(), ["mgbd.sock"]);
    let socket = clients.join("mgbd.sock");
    // As docs/CONTAINERS.md has it: read-only, at the same path.
    let inside = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && ! touch {0}/file 2>/dev/null \
         && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"",
        clients.display()
    );
    let vecadd = built::program("vecadd");
    let mut command = node.command("unshare", &["--mount", "sh", "-c", &inside, "sh"]);
    command
        .arg(&vecadd)
        .env("MGB_SOCKET", &socket)
        .env("MGB", "require");
    assert!(run(&mut command).success().contains("PASS"));
    node.stop_mgbd();
    assert!(names().is_empty(), "nothing is left");
    // The next mgbd is found there as well, and the one after it.
    node.start_mgbd("mgb");
    assert!(run(&mut command).success().contains("PASS"));
    let program = RunningProgram::start(&mut command);
    node.replace_mgbd(Signal::KILL);
    assert!(program.end().success().contains("PASS"));
    assert!(Client::observe(&socket).is_ok());
    assert_eq!(names(), ["mgbd.sock"]);
}
