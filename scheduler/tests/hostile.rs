//! Clients that break the protocol: each is cut off, `mgbd` and the others go on.

#[path = "hostile/any.rs"]
mod any;
mod common;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::raw::{Intruder, SEALS, answer, bell, memory, request, try_send};
use common::{DRIVER_FILE, Daemon, GpuSetting, MIB, driver_files_open, wait_for};
use mgb_interface::Policy;
use mgb_probe::hello::HelloAnswer;
use mgb_probe::wire::{
    ANSWERED, CHANNEL_BYTES, IDLE, KEEP, OLDEST, Op, Opening, POSTED, Reply, Request, VERSION,
};
use mgb_probe::{BeginRequest, Client, Need};
use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::net::SendFlags;

/// Not a test: what the others start as client processes.
#[test]
fn client_process() {
    common::client_process();
}

/// With a holder, which has what clients connect by as well.
fn daemon() -> Daemon {
    Daemon::start_with(GpuSetting::new(1, 100 * MIB, MIB), |config| {
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
    common::raw::connect(&daemon.socket()).unwrap()
}

fn send(socket: &OwnedFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) {
    try_send(socket, message, descriptors).unwrap();
}

/// Says hello in some way; returns `mgbd`'s answer, or `None` if it hung up.
fn open(socket: &OwnedFd, opening: &[u8], descriptors: &[BorrowedFd<'_>]) -> Option<HelloAnswer> {
    send(socket, opening, descriptors);
    answer(socket).unwrap()
}

fn refusal(answer: Option<HelloAnswer>) -> String {
    match answer {
        Some(HelloAnswer::Refused { reason, .. }) => reason,
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
        Some(HelloAnswer::Hello(hello)) => hello.version,
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

/// Lets one in whose memory cannot be truncated any more.
fn intrude(daemon: &Daemon) -> Intruder {
    let intruder = Intruder::new(&daemon.socket());
    let cut = rustix::fs::ftruncate(&intruder.memory, 0);
    assert!(cut.is_err(), "the seals do not hold");
    intruder
}

fn reply(intruder: &Intruder, cell: usize) -> Option<Reply> {
    let cell = &intruder.channel().cells[cell];
    wait_for("an answer", || cell.state.load(Ordering::Acquire) == ANSWERED);
    Reply::decode(cell)
}

#[test]
fn garbage_in_the_channel_is_survived() {
    let daemon = daemon();
    let mut seed = 99u64;
    for round in 0..50 {
        let intruder = intrude(&daemon);
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
    let unknown = intrude(&daemon);
    unknown.channel().cells[0].state.store(POSTED, Ordering::Release);
    unknown.channel().posted.store(1, Ordering::Release);
    unknown.ring();
    assert!(unknown.is_cut_off());
    let empty = intrude(&daemon);
    empty.channel().posted.store(1 << 63, Ordering::Release);
    empty.ring();
    assert!(empty.is_cut_off());
    // A request that waits, posted again.
    let mut holder = daemon.client("begin 90 map 90 say up sleep 60000");
    holder.until("up");
    let twice = intrude(&daemon);
    twice.post(3, &request(Op::Begin, 1, 50 * MIB));
    daemon.wait_view("it to wait", |view| view.queue.len() == 1);
    twice.post(3, &request(Op::Begin, 1, 50 * MIB));
    assert!(twice.is_cut_off());
    daemon.wait_view("its request to be dropped", |view| view.queue.is_empty());
    let talker = intrude(&daemon);
    rustix::net::send(&talker.socket, b"more", SendFlags::NOSIGNAL).unwrap();
    assert!(talker.is_cut_off());
    let stranger = intrude(&daemon);
    send(&stranger.socket, b"MGBkeep", &[bell().as_fd()]);
    assert!(stranger.is_cut_off());
    // Of files to be kept one is not the driver's: none is, and the client is served on.
    let keeper = intrude(&daemon);
    let driver = rustix::fs::open(DRIVER_FILE, OFlags::RDWR, Mode::empty()).unwrap();
    send(&keeper.socket, KEEP, &[driver.as_fd(), bell().as_fd()]);
    drop(driver);
    holder.kill();
    still_serves(&daemon);
    keeper.post(3, &request(Op::Begin, 1, MIB));
    let cell = &keeper.channel().cells[3];
    wait_for("an answer", || cell.state.load(Ordering::Acquire) == ANSWERED);
    wait_for("none to be kept", || driver_files_open() == 0);
}

/// mgbd takes eight of a user's requests in a turn of its loop.
#[test]
fn what_comes_while_the_rest_of_many_is_taken_is_answered() {
    let daemon = daemon();
    let client = intrude(&daemon);
    let nothing = request(Op::End, u64::MAX, 0);
    for round in 0..4000 {
        for cell in 0..9 {
            client.fill(cell, &nothing);
        }
        client.ring();
        // It comes at another moment each time.
        let rung = Instant::now();
        while rung.elapsed() < Duration::from_micros(round % 400) {
            std::hint::spin_loop();
        }
        client.post(9, &nothing);
        for cell in 0..10 {
            assert!(
                matches!(reply(&client, cell), Some(Reply::Bad(_))),
                "{round}, {cell}"
            );
        }
    }
}

#[test]
fn nonsense_requests_are_answered_and_change_nothing() {
    let daemon = daemon();
    let intruder = intrude(&daemon);
    for (op, task) in [
        (Op::Grow, 5),
        (Op::End, u64::MAX),
        (Op::Swapped, 0),
        (Op::GiveBack, 1),
        (Op::Begin, 0),
    ] {
        intruder.post(0, &request(op, task, u64::MAX / 2));
        assert!(matches!(reply(&intruder, 0), Some(Reply::Bad(_))), "{op:?}");
    }
    intruder.post(0, &request(Op::Begin, 1, u64::MAX));
    assert!(matches!(reply(&intruder, 0), Some(Reply::NeverFits { .. })));
    intruder.post(
        0,
        &Request {
            gpus: 2,
            ..request(Op::Begin, 1, 1)
        },
    );
    assert_eq!(reply(&intruder, 0), Some(Reply::NoGpu));
    intruder.post(0, &request(Op::Begin, 1, MIB));
    let granted = reply(&intruder, 0);
    // With all flags it asks for a numbering as well.
    assert!(
        matches!(granted, Some(Reply::Granted { .. } | Reply::First { .. })),
        "{granted:?}"
    );
    for op in [Op::GiveBack, Op::Swapped, Op::End] {
        intruder.post(0, &request(op, 1, u64::MAX));
        assert_eq!(reply(&intruder, 0), Some(Reply::Done));
    }
    let label = "begin 1 say up";
    let mut honest = daemon.client(label);
    honest.until("up");
}

#[test]
fn requests_for_all_bytes_there_are_end_no_mgbd_that_knows_no_memory() {
    for policy in [Policy::Sa, Policy::Cg(2)] {
        let daemon = Daemon::start_with(GpuSetting::new(1, 100 * MIB, MIB), |config| {
            config.policy = policy
        });
        let intruder = intrude(&daemon);
        for (task, bytes) in [(1, u64::MAX), (2, u64::MAX - MIB), (3, 1 << 49), (4, u64::MAX)] {
            intruder.post(0, &request(Op::Begin, task, bytes));
            let refused = matches!(reply(&intruder, 0), Some(Reply::NeverFits { .. }));
            assert_eq!(refused, task != 3, "{policy}");
            intruder.channel().cells[0].state.store(IDLE, Ordering::Release);
        }
        intruder.post(0, &request(Op::Grow, 3, u64::MAX));
        assert!(
            matches!(reply(&intruder, 0), Some(Reply::NeverFits { .. })),
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
    let intruder = intrude(&daemon);
    std::thread::scope(|scope| {
        let rings = scope.spawn(|| {
            while !intruder.is_gone() {
                intruder.ring();
                intruder.ring();
                // Takes the number out, so that mgbd never could.
                let _ = rustix::io::read(&intruder.doorbell, &mut [0; 8]);
                intruder.ring();
            }
        });
        still_serves_beside(&daemon);
        wait_for("the one that only rings to be cut off", || rings.is_finished());
    });
    assert!(daemon.view().counts.offenders > 0);
    drop(silent);
}

fn still_serves_beside(daemon: &Daemon) {
    for _ in 0..5 {
        let mut honest = daemon.client("begin 10 map 10 end say done");
        honest.until("done");
        honest.finish();
    }
}
