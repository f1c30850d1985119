//! `mgb metrics`: what Prometheus gets of a node, and what clients that do not behave get.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;

/// How soon somebody who asks at once is answered, whatever others do.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

fn socket(node: &PrivateNode) -> PathBuf {
    node.folder().join("metrics.sock")
}

fn serves(node: &PrivateNode, more: &[&str]) -> RunningProgram {
    let listen = format!("unix:{}", socket(node).display());
    let arguments = [&["metrics", "--listen", &listen], more].concat();
    let metrics = RunningProgram::start(&mut node.mgb(&arguments));
    wait::until("it listens", || UnixStream::connect(socket(node)).ok());
    metrics
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("somebody listens");
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    stream
}

/// The head and the body of the answer to a request.
fn ask(path: &Path, request: &[u8]) -> (String, String) {
    let mut stream = connect(path);
    stream.write_all(request).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

fn metrics(path: &Path) -> String {
    let (head, body) = ask(path, b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4"),
        "{head}"
    );
    body
}

fn value(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn prometheus_sees_tasks_and_the_queue() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let jobs = node.folder().join("jobs");
    fs::create_dir(&jobs).unwrap();
    let server = serves(
        &node,
        &["--interval", "1", "--job-mapping-dir", jobs.to_str().unwrap()],
    );
    let program = built::program("phases");
    let at_work = |mib: &str| {
        let arguments = [
            "run",
            program.to_str().unwrap(),
            mib,
            "100000",
            "50",
            "wait",
            "10",
            "8",
        ];
        RunningProgram::start(&mut node.mgb(&arguments))
    };
    let first = at_work("40");
    wait::until("it has its memory", || {
        (node.view().gpus[0].reserved_bytes > 0).then_some(())
    });
    let second = at_work("30");
    wait::until("it waits", || (node.view().queue.len() == 1).then_some(()));
    let seen = wait::until("the exporter has looked since", || {
        let text = metrics(&socket(&node));
        (value(&text, "mgb_queue_requests") == Some(1.0)).then_some(text)
    });
    assert_eq!(value(&seen, "mgb_up"), Some(1.0), "{seen}");
    let gpu = &node.view().gpus[0].gpu;
    let labels = format!(
        r#"{{gpu="{}",UUID="{}",modelName="{}""#,
        gpu.node_index, gpu.uuid, gpu.name
    );
    assert_eq!(
        value(&seen, &format!("mgb_gpu_memory_reserved_bytes{labels}}}")),
        Some(f64::from(40 << 20)),
        "{seen}"
    );
    assert_eq!(
        value(&seen, &format!(r#"mgb_gpu_tasks{labels},state="running"}}"#)),
        Some(1.0),
        "{seen}"
    );
    let busy = |text: &str| value(text, &format!("mgb_gpu_busy_seconds_total{labels}}}"));
    wait::until("the GPU has work", || {
        (busy(&metrics(&socket(&node))) > busy(&seen)).then_some(())
    });
    let file = jobs.join(gpu.node_index.to_string());
    wait::until("its job is known", || {
        let text = fs::read_to_string(&file).ok()?;
        (text.lines().count() == 1 && text.starts_with("mgb-")).then_some(())
    });
    // Both printed, and for node exporter.
    let printed = run(&mut node.mgb(&["metrics", "--once"])).success();
    assert!(
        value(&printed, "mgb_tasks_granted_total") >= Some(1.0),
        "{printed}"
    );
    let textfile = node.folder().join("mgb.prom");
    run(&mut node.mgb(&["metrics", "--once", "--textfile", textfile.to_str().unwrap()])).success();
    assert!(fs::read_to_string(&textfile).unwrap().contains("mgb_up 1\n"));
    for process in [first, second] {
        process.signal(Signal::TERM);
        process.end();
    }
    server.signal(Signal::TERM);
    let ended = server.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(!socket(&node).exists(), "it leaves nothing");
    assert_eq!(fs::read_to_string(&file).unwrap(), "", "no job is there any more");
}

#[test]
fn mgbd_may_go_and_come_back() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let server = serves(&node, &[]);
    let up = |node: &PrivateNode| value(&metrics(&socket(node)), "mgb_up");
    assert_eq!(up(&node), Some(1.0));
    node.stop_mgbd();
    wait::until("it is seen", || (up(&node) == Some(0.0)).then_some(()));
    let text = metrics(&socket(&node));
    assert_eq!(text.lines().count(), 3, "{text}");
    let ended = run(&mut node.mgb(&["metrics", "--once"]));
    assert_eq!(
        (ended.code(), ended.stdout.contains("mgb_up 0\n")),
        (3, true),
        "{ended:?}"
    );
    node.start_mgbd("mgb");
    wait::until("it is back", || (up(&node) == Some(1.0)).then_some(()));
    // One that is stopped and answers nobody is waited for, and not for ever.
    node.signal_mgbd(Signal::STOP);
    let start = Instant::now();
    wait::until("it is missed", || (up(&node) == Some(0.0)).then_some(()));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    node.signal_mgbd(Signal::CONT);
    wait::until("it is back", || (up(&node) == Some(1.0)).then_some(()));
    server.signal(Signal::INT);
    assert_eq!(server.end().code(), 0);
}

#[test]
fn clients_that_do_not_behave_keep_nobody_waiting() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let server = serves(&node, &[]);
    let path = socket(&node);
    let request = |line: &str| ask(&path, format!("{line}\r\nHost: node\r\n\r\n").as_bytes()).0;
    for (line, status) in [
        ("GET / HTTP/1.1", "200"),
        ("HEAD /metrics HTTP/1.0", "200"),
        ("GET /metrics?x=1 HTTP/1.1", "200"),
        ("GET /../../etc/passwd HTTP/1.1", "404"),
        ("POST /metrics HTTP/1.1", "405"),
        ("GET /metrics HTTP/9.9", "400"),
        ("nonsense", "400"),
    ] {
        let head = request(line);
        assert!(head.contains(&format!(" {status} ")), "{line}: {head}");
    }
    // A head without an end, in many lines and in one, and a body that was announced and does not come.
    let long = "x".repeat(1 << 20);
    for huge in [
        format!("GET /{long} HTTP/1.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100_000)),
    ] {
        let mut stream = connect(&path);
        // It may end before it has read all.
        let _ = stream.write_all(huge.as_bytes());
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(
            ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset),
            "it is over"
        );
        assert!(
            !answer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let announced = ask(
        &path,
        b"GET /metrics HTTP/1.1\r\nHost: n\r\nContent-Length: 999999999\r\n\r\n",
    );
    assert!(announced.0.contains(" 200 "), "{announced:?}");
    // Those who say nothing, who say half, and who do not read.
    let mut slow: Vec<UnixStream> = (0..300).map(|_| connect(&path)).collect();
    for stream in slow.iter_mut().skip(100) {
        // The oldest were ended by those who came after them.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
    }
    for stream in slow.iter_mut().skip(200) {
        let _ = stream.write_all(b"y\r\n\r\n");
    }
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(value(&metrics(&path), "mgb_up"), Some(1.0));
        assert!(start.elapsed() < ANSWER_TIMEOUT, "{:?}", start.elapsed());
    }
    // Whoever says half is not kept for ever.
    let mut half = connect(&path);
    half.write_all(b"GET /metr").unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).expect("it ends within seconds");
    assert!(!answer.contains("mgb_up"), "{answer}");
    drop(slow);
    let pid = server.pid();
    wait::until("no descriptor is kept", || {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        (open < 40).then_some(())
    });
    server.signal(Signal::TERM);
    assert_eq!(server.end().code(), 0);
}

#[test]
fn addresses_that_cannot_be_had_are_named() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let said = node.folder().join("said");
    let stderr = Stdio::from(fs::File::create(&said).unwrap());
    let server = RunningProgram::start_with(&mut node.mgb(&["metrics", "--listen", "127.0.0.1:0"]), stderr);
    let address = wait::until("it says where it serves", || {
        let text = fs::read_to_string(&said).ok()?;
        let (_, rest) = text.split_once("serves http://")?;
        Some(rest.split_once("/metrics")?.0.to_owned())
    });
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("mgb_up 0\n"), "{answer}");
    let taken = run(&mut node.mgb(&["metrics", "--listen", &address]));
    assert_eq!(taken.code(), 3);
    assert!(
        taken
            .stderr
            .contains(&format!("failed to listen at http://{address}")),
        "{taken:?}"
    );
    server.signal(Signal::TERM);
    assert_eq!(server.end().code(), 0);
    let file = node.write("no.sock", "what somebody needs");
    let listen = format!("unix:{}", file.display());
    run(&mut node.mgb(&["metrics", "--listen", &listen])).failure(&["no socket"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "what somebody needs");
    let missing = run(&mut node.mgb(&["metrics", "--once", "--job-mapping-dir", "/nonexistent"]));
    assert_eq!(missing.code(), 2);
    assert!(missing.stderr.contains("there is no such folder"), "{missing:?}");
}
