//! Clients that break the protocol: each is cut off, `mgbd` and the others go on.

#[path = "hostile/any.rs"]
mod any;
mod common;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{DRIVER_FILE, Daemon, MIB, Setting, driver_files_open, wait_for};
use mgb_probe::hello::Answer;
use mgb_probe::mapping::Mapping;
use mgb_probe::wire::{
    ANSWERED, CHANNEL_BYTES, Channel, IDLE, KEEP, OLDEST, Op, Opening, POSTED, Reply, Request, Text, VERSION,
};
use mgb_probe::{BeginRequest, Client, Need};
use mgb_scheduler::Policy;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// With a holder, which has what clients connect by as well.
fn daemon() -> Daemon {
    Daemon::start_with(Setting::new(1, 100 * MIB, MIB), |config| {
        config.holder = Some(env!("CARGO_BIN_EXE_mgbd").into());
    })
}

/// An honest client is served, and `mgbd` is alive.
fn still_serves(daemon: &Daemon) {
    let mut honest = daemon.client("begin 10 map 10 end say done");
    honest.until("done");
    honest.finish();
    daemon.check_empty();
}

fn connect(daemon: &Daemon) -> OwnedFd {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(daemon.socket()).unwrap()).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(10))).unwrap();
    socket
}

fn memory(bytes: usize, seals: SealFlags) -> OwnedFd {
    let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&memory, bytes as u64).unwrap();
    rustix::fs::fcntl_add_seals(&memory, seals).unwrap();
    memory
}

fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

fn send(socket: &OwnedFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let message = [IoSlice::new(message)];
    rustix::net::sendmsg(socket, &message, &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// Says hello in some way; returns `mgbd`'s answer, or `None` if it hung up.
fn open(socket: &OwnedFd, opening: &[u8], descriptors: &[BorrowedFd<'_>]) -> Option<Answer> {
    send(socket, opening, descriptors);
    let mut buffer = vec![0; 1 << 17];
    let mut none = RecvAncillaryBuffer::default();
    let message = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut buffer)],
        &mut none,
        RecvFlags::empty(),
    )
    .unwrap();
    (message.bytes > 0).then(|| serde_json::from_slice(&buffer[..message.bytes]).unwrap())
}

fn refusal(answer: Option<Answer>) -> String {
    match answer {
        Some(Answer::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn broken_handshakes_are_refused() {
    let daemon = daemon();
    let good = Opening::new(0, 0).encode();
    let refused = |opening: &[u8], descriptors: &[BorrowedFd<'_>]| {
        refusal(open(&connect(&daemon), opening, descriptors))
    };
    let (right, doorbell) = (memory(CHANNEL_BYTES, SEALS), bell());
    let both = [right.as_fd(), doorbell.as_fd()];
    assert!(refused(b"GET / HTTP/1.1\r\n\r\n", &both).contains("not an MGB client's"));
    assert!(refused(&good[..20], &both).contains("not an MGB client's"));
    assert!(refused(&[0xff; 4096], &both).contains("not an MGB client's"));
    let mut later = Opening::new(0, 0);
    (later.version, later.oldest) = (77, 77);
    assert!(refused(&later.encode(), &both).contains("version 77"));
    // The last build's, and the next one's, which speaks this version too.
    let welcome = |opening: &[u8]| match open(&connect(&daemon), opening, &both) {
        Some(Answer::Hello(hello)) => hello.version,
        other => panic!("{other:?}"),
    };
    (later.version, later.oldest) = (OLDEST, OLDEST);
    assert_eq!(welcome(&later.encode()[..32]), OLDEST);
    (later.version, later.oldest) = (VERSION + 1, VERSION);
    assert_eq!(welcome(&later.encode()), VERSION);
    assert!(refused(&good, &[]).contains("0 descriptors"));
    assert!(refused(&good, &[right.as_fd()]).contains("1 descriptors"));
    assert!(refused(&good, &[right.as_fd(); 7]).contains("7 descriptors"));
    for seals in [
        SealFlags::empty(),
        SealFlags::SHRINK,
        SealFlags::SHRINK | SealFlags::GROW,
    ] {
        let loose = memory(CHANNEL_BYTES, seals);
        assert!(refused(&good, &[loose.as_fd(), doorbell.as_fd()]).contains("sealed"));
    }
    let small = memory(CHANNEL_BYTES - 4096, SEALS);
    assert!(refused(&good, &[small.as_fd(), doorbell.as_fd()]).contains("28672 bytes"));
    let read_only = memory(CHANNEL_BYTES, SEALS | SealFlags::WRITE);
    // Some seals forbid adding the last; what counts is that it is refused.
    refused(&good, &[read_only.as_fd(), doorbell.as_fd()]);
    let file = tempfile::tempfile().unwrap();
    file.set_len(CHANNEL_BYTES as u64).unwrap();
    assert!(refused(&good, &[file.as_fd(), doorbell.as_fd()]).contains("sealed"));
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    assert!(refused(&good, &[right.as_fd(), pipe.as_fd()]).contains("no eventfd"));
    assert!(refused(&good, &[right.as_fd(), right.as_fd()]).contains("no eventfd"));
    assert!(daemon.view().counts.offenders >= 15);
    still_serves(&daemon);
}

/// A client that was let in and then does as it likes with its memory.
struct Intruder {
    socket: OwnedFd,
    doorbell: OwnedFd,
    mapping: Mapping,
}

impl Intruder {
    fn new(daemon: &Daemon) -> Intruder {
        let (memory, doorbell) = (memory(CHANNEL_BYTES, SEALS), bell());
        let socket = connect(daemon);
        let answer = open(
            &socket,
            &Opening::new(0, 0).encode(),
            &[memory.as_fd(), doorbell.as_fd()],
        );
        assert!(matches!(answer, Some(Answer::Hello(_))));
        assert!(
            rustix::fs::ftruncate(&memory, 0).is_err(),
            "the seals do not hold"
        );
        let mapping = Mapping::new(&memory, CHANNEL_BYTES, true).unwrap();
        Intruder {
            socket,
            doorbell,
            mapping,
        }
    }

    fn channel(&self) -> &Channel {
        self.mapping.shared().unwrap()
    }

    fn ring(&self) {
        rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
    }

    fn post(&self, cell: usize, request: &Request) {
        let channel = self.channel();
        request.encode(&channel.cells[cell]);
        channel.cells[cell].state.store(POSTED, Ordering::Release);
        channel.posted.fetch_or(1 << cell, Ordering::Release);
        self.ring();
    }

    fn reply(&self, cell: usize) -> Option<Reply> {
        let cell = &self.channel().cells[cell];
        common::wait_for("an answer", || cell.state.load(Ordering::Acquire) == ANSWERED);
        Reply::decode(cell)
    }

    /// Whether `mgbd` hung up on it.
    fn is_cut_off(&self) -> bool {
        let mut byte = [0; 1];
        matches!(
            rustix::net::recv(&self.socket, &mut byte, RecvFlags::empty()),
            Ok((_, 0)) | Err(Errno::CONNRESET | Errno::PIPE)
        )
    }
}

fn request(op: Op, task: u64, bytes: u64) -> Request {
    Request {
        op,
        flags: !mgb_probe::wire::WHOLE_PROCESS,
        task,
        thread: 1,
        site: u32::MAX,
        gpus: u64::MAX,
        bytes,
        need: mgb_probe::Need {
            mapped_bytes: bytes,
            ..Default::default()
        },
        first: 0,
        label: Text::new("\u{1b}[31mred"),
    }
}

#[test]
fn garbage_in_the_channel_is_survived() {
    let daemon = daemon();
    let mut seed = 99u64;
    for round in 0..50 {
        let intruder = Intruder::new(&daemon);
        for cell in &intruder.channel().cells {
            for word in &cell.request {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                // Every other round with operations that exist.
                word.store(if round % 2 == 0 { seed } else { seed >> 61 }, Ordering::Relaxed);
            }
            cell.state.store(POSTED, Ordering::Release);
        }
        for words in &intruder.channel().published.gpus {
            words.given.store(u64::MAX, Ordering::Relaxed);
            words.resident.store(u64::MAX, Ordering::Relaxed);
        }
        intruder
            .channel()
            .published
            .contexts
            .store(u64::MAX, Ordering::Relaxed);
        intruder.channel().posted.store(u64::MAX, Ordering::Release);
        intruder.ring();
    }
    // What they took stays charged to this process, which lives; so look at
    // another mgbd for whether rooms come back.
    let mut honest = daemon.client("begin 0 say up");
    honest.until("up");
    still_serves(&self::daemon());
}

#[test]
fn unknown_operations_and_double_posts_cut_off() {
    let daemon = daemon();
    let unknown = Intruder::new(&daemon);
    unknown.channel().cells[0].state.store(POSTED, Ordering::Release);
    unknown.channel().posted.store(1, Ordering::Release);
    unknown.ring();
    assert!(unknown.is_cut_off());
    let empty = Intruder::new(&daemon);
    empty.channel().posted.store(1 << 63, Ordering::Release);
    empty.ring();
    assert!(empty.is_cut_off());
    // A request that waits, posted again.
    let mut holder = daemon.client("begin 90 map 90 say up sleep 60000");
    holder.until("up");
    let twice = Intruder::new(&daemon);
    twice.post(3, &request(Op::Begin, 1, 50 * MIB));
    daemon.wait_view("it to wait", |view| view.queue.len() == 1);
    twice.post(3, &request(Op::Begin, 1, 50 * MIB));
    assert!(twice.is_cut_off());
    daemon.wait_view("its request to be dropped", |view| view.queue.is_empty());
    let talker = Intruder::new(&daemon);
    rustix::net::send(&talker.socket, b"more", SendFlags::NOSIGNAL).unwrap();
    assert!(talker.is_cut_off());
    let stranger = Intruder::new(&daemon);
    send(&stranger.socket, b"MGBkeep", &[bell().as_fd()]);
    assert!(stranger.is_cut_off());
    // Of files to be kept one is not the driver's: none is, and the client is served on.
    let keeper = Intruder::new(&daemon);
    let driver = rustix::fs::open(DRIVER_FILE, OFlags::RDWR, Mode::empty()).unwrap();
    send(&keeper.socket, KEEP, &[driver.as_fd(), bell().as_fd()]);
    drop(driver);
    holder.kill();
    still_serves(&daemon);
    assert_eq!(driver_files_open(), 0);
    keeper.post(3, &request(Op::Begin, 1, MIB));
    let cell = &keeper.channel().cells[3];
    wait_for("an answer", || cell.state.load(Ordering::Acquire) == ANSWERED);
}

#[test]
fn nonsense_requests_are_answered_and_change_nothing() {
    let daemon = daemon();
    let intruder = Intruder::new(&daemon);
    for (op, task) in [
        (Op::Grow, 5),
        (Op::End, u64::MAX),
        (Op::Swapped, 0),
        (Op::GiveBack, 1),
        (Op::Begin, 0),
    ] {
        intruder.post(0, &request(op, task, u64::MAX / 2));
        assert!(matches!(intruder.reply(0), Some(Reply::Bad(_))), "{op:?}");
    }
    intruder.post(0, &request(Op::Begin, 1, u64::MAX));
    assert!(matches!(intruder.reply(0), Some(Reply::NeverFits { .. })));
    intruder.post(
        0,
        &Request {
            gpus: 2,
            ..request(Op::Begin, 1, 1)
        },
    );
    assert_eq!(intruder.reply(0), Some(Reply::NoGpu));
    intruder.post(0, &request(Op::Begin, 1, MIB));
    assert!(matches!(intruder.reply(0), Some(Reply::Granted { .. })));
    for op in [Op::GiveBack, Op::Swapped, Op::End] {
        intruder.post(0, &request(op, 1, u64::MAX));
        assert_eq!(intruder.reply(0), Some(Reply::Done));
    }
    let label = "begin 1 say up";
    let mut honest = daemon.client(label);
    honest.until("up");
}

#[test]
fn requests_for_all_bytes_there_are_end_no_mgbd_that_knows_no_memory() {
    for policy in [Policy::Sa, Policy::Cg(2)] {
        let daemon = Daemon::start_with(Setting::new(1, 100 * MIB, MIB), |config| config.policy = policy);
        let intruder = Intruder::new(&daemon);
        for (task, bytes) in [(1, u64::MAX), (2, u64::MAX - MIB), (3, 1 << 49), (4, u64::MAX)] {
            intruder.post(0, &request(Op::Begin, task, bytes));
            let refused = matches!(intruder.reply(0), Some(Reply::NeverFits { .. }));
            assert_eq!(refused, task != 3, "{policy}");
            intruder.channel().cells[0].state.store(IDLE, Ordering::Release);
        }
        intruder.post(0, &request(Op::Grow, 3, u64::MAX));
        assert!(
            matches!(intruder.reply(0), Some(Reply::NeverFits { .. })),
            "{policy}"
        );
        assert!(daemon.view().gpus[0].reserved_bytes >= 1 << 49);
    }
}

#[test]
fn a_growth_whose_task_another_thread_ends_is_answered() {
    let daemon = daemon();
    let mut holder = daemon.client("begin 60 map 60 say up sleep 60000");
    holder.until("up");
    let client = Client::connect(&daemon.socket()).unwrap();
    let need = Need {
        mapped_bytes: 20 * MIB,
        ..Need::default()
    };
    let grant = client
        .begin(&BeginRequest {
            need,
            ..BeginRequest::default()
        })
        .unwrap();
    std::thread::scope(|scope| {
        let grows = scope.spawn(|| client.grow(grant.task, 50 * MIB));
        daemon.wait_view("the growth to wait", |view| {
            view.queue.iter().any(|waiting| waiting.growth)
        });
        client.end(grant.task, 0);
        wait_for("an answer", || grows.is_finished());
        let refusal = grows.join().unwrap().unwrap_err().to_string();
        assert!(
            refusal.contains("the task ended while it waited to grow"),
            "{refusal}"
        );
    });
    assert!(daemon.view().queue.is_empty());
    holder.kill();
}

#[test]
fn a_flood_of_connections_and_doorbells_starves_nobody() {
    let daemon = daemon();
    let silent: Vec<OwnedFd> = (0..100).map(|_| connect(&daemon)).collect();
    let intruder = Intruder::new(&daemon);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut task = 0;
            while !stop.load(Ordering::Relaxed) {
                task += 1;
                if task % 16 == 0 {
                    intruder.post(0, &request(Op::End, task, 0));
                    intruder.reply(0);
                }
                intruder.ring();
                // Takes the number out, so that mgbd never could.
                let _ = rustix::io::read(&intruder.doorbell, &mut [0; 8]);
            }
        });
        still_serves_beside(&daemon);
        stop.store(true, Ordering::Relaxed);
    });
    drop(silent);
}

fn still_serves_beside(daemon: &Daemon) {
    for _ in 0..5 {
        let mut honest = daemon.client("begin 10 map 10 end say done");
        honest.until("done");
        honest.finish();
    }
}
