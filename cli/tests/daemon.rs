//! How commands find and start mgbd, with a stand-in for it that says hello and nothing more.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Ends when the folder that it serves is gone, or after a minute.
const STAND_IN: &str = r#"#!/usr/bin/env python3
import json, os, socket, sys, time
path = os.environ["MGB_SOCKET"]
folder = os.path.dirname(path)
with open(os.path.join(folder, "starts"), "a") as starts:
    starts.write(" ".join(sys.argv[1:]) + "\n")
if os.path.exists(os.path.join(folder, "broken")):
    sys.exit("mgbd: no GPU at all")
policy = sys.argv[sys.argv.index("--policy") + 1] if "--policy" in sys.argv else "mgb"
named = os.path.join(folder, "names")
pid = int(open(named).read()) if os.path.exists(named) else os.getpid()
gpu = {"index": 0, "node_index": 0, "uuid": "GPU-0", "name": "none", "total_bytes": 1, "usable_bytes": 1,
       "context_bytes": 1, "max_warps": 1,
       "multiprocessors": {"count": 1, "blocks": 32, "warps": 64, "registers": 65536,
       "partitions": 4, "shared_bytes": 65536, "shared_reserved": 0,
       "shared_unit": 128}}
# It answers no request: `mgb run` asks one of newer versions what is expected of a program.
hello = {"version": min(VERSION, 13), "policy": policy, "queue": "backfill", "mps_pipe": None, "mps_note": None, "gpus": [gpu],
         "mgbd_pid": pid, "view": None}
if os.path.exists(path):
    os.unlink(path)
time.sleep(0.2)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind(path)
server.listen(64)
server.settimeout(0.2)
end = time.time() + 60
clients = []
while os.path.exists(folder) and time.time() < end:
    try:
        client, _ = server.accept()
        client.recvmsg(4096, 4096)
        client.send(json.dumps({"hello": hello}).encode())
        clients.append(client)
    except TimeoutError:
        pass
"#;

struct DaemonStage {
    folder: TempDir,
}

impl DaemonStage {
    fn new() -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in ["bin", "lib/softgpu", "lib/front", "node"] {
            fs::create_dir_all(stage.path(folder)).unwrap();
        }
        for library in ["softgpu/libcudart.so.13", "front/libcuda.so.1"] {
            fs::write(stage.path("lib").join(library), "").unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_mgb"), stage.path("bin/mgb")).unwrap();
        let version = mgb_probe::wire::VERSION.to_string();
        fs::write(stage.path("bin/mgbd"), STAND_IN.replace("VERSION", &version)).unwrap();
        fs::set_permissions(stage.path("bin/mgbd"), fs::Permissions::from_mode(0o755)).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mgb(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/mgb"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("MGB_PREFIX", self.folder.path())
            .env("MGB_SOCKET", self.path("node/mgbd.sock"))
            .env("MGB_SOFTGPU", "1")
            .env_remove("MGB");
        command
    }

    fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("node/starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn many_at_once_start_one() {
    let stage = DaemonStage::new();
    let running: Vec<_> = (0..8)
        .map(|_| stage.mgb(&["run", "true"]).spawn().unwrap())
        .collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(stage.starts(), ["--idle-exit 60"]);
}

#[test]
fn the_program_is_started_as_asked_with_the_gpus_chosen() {
    let stage = DaemonStage::new();
    let script = "echo $0 $1 $LD_LIBRARY_PATH; exit 9";
    let run = |variable: &str, value: &str| {
        let mut command = stage.mgb(&["run", "sh", "-c", script, "--need", "-x"]);
        output(command.env("LD_LIBRARY_PATH", "/own").env(variable, value))
    };
    let [front, softgpu] =
        ["lib/front", "lib/softgpu"].map(|folder| stage.path(folder).display().to_string());
    let (code, out, _) = run("MGB_PRIORITY", "1");
    assert_eq!(code, Some(9));
    assert_eq!(out, format!("--need -x {front}:{softgpu}:/own\n"));
    let (_, out, _) = run("MGB", "off");
    assert_eq!(out, format!("--need -x {softgpu}:/own\n"), "no front");
    // No mgbd among the program's children.
    let (_, children, _) = output(&mut stage.mgb(&["run", "sh", "-c", "cat /proc/$$/task/$$/children"]));
    assert_eq!(children.split_whitespace().count(), 1, "only cat: {children}");
}

#[test]
fn another_policy_than_the_running_ones_is_refused() {
    let stage = DaemonStage::new();
    assert_eq!(
        output(&mut stage.mgb(&["run", "--policy", "alg3", "true"])).0,
        Some(0)
    );
    assert_eq!(stage.starts(), ["--idle-exit 60 --policy alg3"]);
    assert_eq!(output(&mut stage.mgb(&["run", "true"])).0, Some(0));
    let (code, _, said) = output(&mut stage.mgb(&["run", "--policy", "sa", "true"]));
    assert_eq!(code, Some(125));
    assert!(
        said.contains("runs under the policy alg3, not sa: stop it with `mgb stop`"),
        "{said}"
    );
}

#[test]
fn an_mgbd_that_cannot_start_says_why() {
    let stage = DaemonStage::new();
    fs::write(stage.path("node/broken"), "").unwrap();
    fs::write(stage.path("node/mgbd.sock.log"), "an older line\n").unwrap();
    let (code, _, said) = output(&mut stage.mgb(&["run", "true"]));
    assert_eq!(code, Some(125));
    assert!(
        said.starts_with("mgb run: failed to start mgbd (its log is "),
        "{said}"
    );
    assert!(
        said.contains("mgbd.sock.log): mgbd: no GPU at all") && !said.contains("older"),
        "{said}"
    );
    fs::write(stage.path("jobs.txt"), "true\n").unwrap();
    let (code, _, said) = output(&mut stage.mgb(&["batch", "jobs.txt"]));
    assert_eq!(code, Some(3));
    assert!(said.contains("no GPU at all"), "{said}");
    assert!(
        !stage.path("jobs.logs").exists(),
        "nothing is left of a batch that did not start"
    );
}

#[test]
fn a_process_that_is_no_mgbd_is_not_ended() {
    let stage = DaemonStage::new();
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(stage.path("node/names"), bystander.id().to_string()).unwrap();
    // Beside the lock of an mgbd that another process has.
    let lock = fs::File::create(stage.path("node/mgbd.sock.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(output(&mut stage.mgb(&["run", "true"])).0, Some(0));
    let (code, _, said) = output(&mut stage.mgb(&["stop"]));
    assert_eq!(code, Some(3), "{said}");
    let names = format!("it says that it is process {}", bystander.id());
    assert!(said.contains(&names), "{said}");
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn what_does_not_answer_is_given_up_in_time() {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mgbd.sock");
    let address = SocketAddrUnix::new(&path).unwrap();
    let socket = |flags| socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let listener = socket(SocketFlags::CLOEXEC);
    bind(&listener, &address).unwrap();
    listen(&listener, 1).unwrap();
    // First it takes nobody, and in the end nobody can even wait to be taken.
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let within = std::time::Duration::from_millis(200);
        let error = mgb_probe::Client::observe_within(&path, within)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("no answer in 0.2 s"), "{error}");
        let one = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let _ = connect(&one, &address);
        waiting.push(one);
    }
}

#[test]
fn off_starts_none() {
    let stage = DaemonStage::new();
    assert_eq!(output(stage.mgb(&["run", "true"]).env("MGB", "off")).0, Some(0));
    assert!(stage.starts().is_empty());
}

#[test]
fn a_batch_runs_its_jobs_and_ends_with_their_failure() {
    let stage = DaemonStage::new();
    fs::write(stage.path("jobs.txt"), "sh -c 'exit 4'\necho fine # a comment\n").unwrap();
    let (code, out, progress) = output(&mut stage.mgb(&["batch", "jobs.txt", "--json"]));
    assert_eq!(code, Some(1), "{progress}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    let codes: Vec<_> = summary["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["exit_code"].as_i64())
        .collect();
    assert_eq!(codes, [Some(4), Some(0)]);
    assert_eq!(
        (summary["auto"].as_bool(), summary["failed"].as_u64()),
        (Some(true), Some(1))
    );
    assert_eq!(
        fs::read_to_string(stage.path("jobs.logs/002-echo.log")).unwrap(),
        "fine\n"
    );
    assert!(progress.contains("[2/2]"), "{progress}");
    // A second run keeps the first one's logs.
    output(&mut stage.mgb(&["batch", "jobs.txt"]));
    assert!(stage.path("jobs.logs-2/001-sh.log").exists());
}

#[test]
fn wrong_input_starts_nothing() {
    let stage = DaemonStage::new();
    fs::write(stage.path("jobs.txt"), "true\n./no_such_program\n").unwrap();
    for (arguments, code, words) in [
        (&["batch", "nowhere.txt"][..], 2, ["nowhere.txt", "No such file"]),
        (
            &["batch", "jobs.txt"],
            2,
            [
                "jobs.txt:2: failed to find the program ./no_such_program",
                "nothing was started",
            ],
        ),
        (
            &["batch", "jobs.txt", "--policy", "fairest"],
            2,
            ["`fairest`", "cg:N"],
        ),
        (&["batch", "jobs.txt", "-j", "0"], 2, ["'0'", "--jobs"]),
        (
            &["run", "--need", "much", "true"],
            2,
            ["`much` is no size", "12GiB"],
        ),
        (
            &["run", "./no_such_program"],
            127,
            ["failed to find the program", "./no_such_program"],
        ),
        (&["run", "/etc/passwd"], 126, ["cannot be executed", "chmod +x"]),
        (&["status"], 3, ["no mgbd runs", "mgbd.sock"]),
        (
            &["explain", "jobs.txt"],
            2,
            ["jobs.txt is not an object file", "mgb clang"],
        ),
    ] {
        let (found, _, said) = output(&mut stage.mgb(arguments));
        assert_eq!(found, Some(code), "{arguments:?}: {said}");
        assert!(
            words.iter().all(|word| said.contains(word)),
            "{arguments:?}: {said}"
        );
    }
    assert!(stage.starts().is_empty());
}
