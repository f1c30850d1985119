//! How long a task waits for its grant on an idle node, beside one exchange of 64 bytes over a plain UNIX
//! socket between as many processes: `cargo bench -p mgb-scheduler --bench grants`. mgbd, the plain server
//! and each client are processes of their own; the GPUs are made up, so that only asking, deciding and
//! answering is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mgb_probe::{BeginRequest, Client, Gpu, Need};
use mgb_scheduler::daemon::{self, Config};
use mgb_scheduler::node::{GpuMemory, NodeDriver, NodeError, Resident};
use rustix::event::{PollFd, PollFlags, poll};

mod h200;

const GIB: u64 = 1 << 30;
const MESSAGE: usize = 64;
/// Exchanges of each client that are measured, with one client and with many.
const ROUNDS: [(usize, usize); 2] = [(1, 20_000), (64, 1_000)];
/// Exchanges before those.
const WARM: usize = 200;

/// Eight GPUs that nobody uses.
struct IdleGpus(Vec<Gpu>);

impl IdleGpus {
    fn new() -> IdleGpus {
        IdleGpus((0..8).map(|index| h200::gpu(index, 140 * GIB, GIB / 2)).collect())
    }
}

impl NodeDriver for IdleGpus {
    fn gpus(&self) -> &[Gpu] {
        &self.0
    }

    fn software(&self) -> bool {
        true
    }

    fn memory(&self, _gpu: usize) -> Result<GpuMemory, NodeError> {
        Ok(GpuMemory {
            total: 140 * GIB,
            free: 140 * GIB,
        })
    }

    fn residents(&self, _gpu: usize) -> Result<Vec<Resident>, NodeError> {
        Ok(Vec::new())
    }

    fn utilisation(&self, _gpu: usize) -> Result<u32, NodeError> {
        Ok(0)
    }

    fn driver_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn paused_within(&self, _gpu: usize, _ago: Duration) -> Result<bool, NodeError> {
        Ok(true)
    }
}

/// mgbd, until its standard input ends.
fn serve_grants(socket: &Path) {
    let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(stop);
    });
    // With the holder it keeps a journal, as mgbd does.
    let holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
    let config = Config {
        holder,
        ..Config::new(socket.to_owned())
    };
    daemon::run(config, Box::new(IdleGpus::new()), OwnedFd::from(stopped)).expect("mgbd runs");
}

/// Sends every message back, until its standard input ends.
fn serve_echoes(socket: &Path) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let listener = UnixListener::bind(socket).expect("a socket");
    let mut clients: Vec<UnixStream> = Vec::new();
    loop {
        let mut polled = vec![PollFd::new(&listener, PollFlags::IN)];
        polled.extend(clients.iter().map(|client| PollFd::new(client, PollFlags::IN)));
        poll(&mut polled, None).expect("poll");
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        drop(polled);
        let mut message = [0; MESSAGE];
        let mut at = 0;
        clients.retain_mut(|client| {
            at += 1;
            !ready[at] || (client.read_exact(&mut message).is_ok() && client.write_all(&message).is_ok())
        });
        if ready[0] {
            clients.push(listener.accept().expect("a client").0);
        }
    }
}

/// One client: says that it is ready, waits for the word, and prints what each exchange took, in nanoseconds.
fn measure(rounds: usize, mut exchange: impl FnMut() -> Duration) {
    for _ in 0..WARM {
        exchange();
    }
    println!("ready");
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    let took: Vec<Duration> = (0..rounds).map(|_| exchange()).collect();
    let lines: Vec<String> = took.iter().map(|one| one.as_nanos().to_string()).collect();
    println!("{}", lines.join("\n"));
}

fn ask_for_grants(socket: &Path, rounds: usize) {
    let client = Client::connect(socket).expect("mgbd answers");
    let request = BeginRequest {
        need: Need {
            mapped_bytes: GIB,
            grid_blocks: 64,
            block_threads: 256,
            ..Need::default()
        },
        site: None,
        gpu: None,
        avoid: 0,
        name: Some("bench"),
        whole_process: false,
    };
    measure(rounds, || {
        let start = Instant::now();
        let grant = client.begin(&request).expect("there is room");
        let took = start.elapsed();
        client.end(grant.task, 0);
        took
    });
}

fn ask_for_echoes(socket: &Path, rounds: usize) {
    let mut stream = UnixStream::connect(socket).expect("the server answers");
    let mut message = [7; MESSAGE];
    measure(rounds, || {
        let start = Instant::now();
        stream.write_all(&message).expect("the server reads");
        stream.read_exact(&mut message).expect("the server answers");
        start.elapsed()
    });
}

fn process(role: &str, socket: &Path, rounds: usize) -> Child {
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.arg(role).arg(socket).arg(rounds.to_string());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    piped.spawn().expect("a process")
}

/// Microseconds of all exchanges of so many clients, sorted.
fn play(server: &str, client: &str, clients: usize, rounds: usize) -> Vec<f64> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("socket");
    let mut serving = process(server, &socket, 0);
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // From being there to being listened at.
    std::thread::sleep(Duration::from_millis(50));
    let mut running: Vec<Child> = (0..clients).map(|_| process(client, &socket, rounds)).collect();
    let mut outputs: Vec<_> = running
        .iter_mut()
        .map(|one| BufReader::new(one.stdout.take().expect("a pipe")).lines())
        .collect();
    for output in &mut outputs {
        let line = output.next().expect("a line").expect("UTF-8");
        assert_eq!(line, "ready");
    }
    for one in &mut running {
        one.stdin
            .take()
            .expect("a pipe")
            .write_all(b"go\n")
            .expect("it reads");
    }
    let mut all: Vec<f64> = Vec::new();
    for output in outputs {
        all.extend(output.map(|line| line.expect("UTF-8").parse::<f64>().expect("a number") / 1000.0));
    }
    for mut one in running {
        assert!(one.wait().expect("it ends").success());
    }
    drop(serving.stdin.take());
    serving.wait().expect("it ends");
    assert_eq!(all.len(), clients * rounds);
    all.sort_by(f64::total_cmp);
    all
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, socket, rounds] = words.as_slice() {
        let (socket, rounds) = (Path::new(socket), rounds.parse().expect("a number"));
        return match role.as_str() {
            "serve-grants" => serve_grants(socket),
            "serve-echoes" => serve_echoes(socket),
            "grants" => ask_for_grants(socket, rounds),
            "echoes" => ask_for_echoes(socket, rounds),
            _ => panic!("no role {role}"),
        };
    }
    println!("from request to grant, microseconds; beside a plain socket's exchange\n");
    println!("clients  grant median       p99  socket median       p99  median: times shorter");
    for (clients, rounds) in ROUNDS {
        let grants = play("serve-grants", "grants", clients, rounds);
        let echoes = play("serve-echoes", "echoes", clients, rounds);
        let part = |all: &[f64], of: usize| all[(all.len() - 1) * of / 100];
        println!(
            "{clients:7}  {:12.1} {:9.1}  {:13.1} {:9.1}  {:.2}",
            part(&grants, 50),
            part(&grants, 99),
            part(&echoes, 50),
            part(&echoes, 99),
            part(&echoes, 50) / part(&grants, 50)
        );
    }
}
