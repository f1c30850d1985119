//! A client that does anything in any order: `mgbd` serves the next one.

use std::sync::atomic::AtomicU64;

use mgb_probe::mapping::SharedLayout;
use mgb_probe::{Client, Refusal, TaskId};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const WORDS: usize = CHANNEL_BYTES / 8;

/// The channel as plain words.
#[repr(C)]
struct ChannelWords([AtomicU64; WORDS]);

// SAFETY: it consists of atomics only, and zeros are a valid value of them.
unsafe impl SharedLayout for ChannelWords {}

/// A step of the client's.
#[derive(Clone, Debug)]
enum ClientStep {
    /// Writes a word anywhere.
    Write(usize, u64),
    /// Fills a cell with a request of an operation that exists, and posts it.
    Ask(usize, Op, u64, u64),
    /// Says that these cells are posted, whatever is in them.
    Post(u64),
    /// Puts a cell into a state.
    Put(usize, u32),
    Ring,
    /// Takes the number out of the doorbell.
    Unring,
    /// Sends something on the socket, with so many files.
    Send(Vec<u8>, usize),
    /// Waits until `mgbd` has had time to look.
    Pause,
}

fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(MIB),
        Just(99 * MIB),
        Just(u64::MAX),
        Just(u64::MAX - MIB),
        any::<u64>()
    ]
}

fn any_step() -> impl Strategy<Value = ClientStep> {
    use Op::{Begin, End, GiveBack, Grow, Swapped, Turn, TurnOver};
    let ops = proptest::sample::select(&[Begin, Grow, Swapped, GiveBack, End, Turn, TurnOver][..]);
    let message = prop_oneof![Just(KEEP.to_vec()), vec(any::<u8>(), 1..300)];
    prop_oneof![
        3 => (0..WORDS, any::<u64>()).prop_map(|(at, word)| ClientStep::Write(at, word)),
        // Most of what mgbd reads without being asked stands at the front.
        3 => (0..64usize, any_bytes()).prop_map(|(at, word)| ClientStep::Write(at, word)),
        8 => (0..4usize, ops, 0..4u64, any_bytes())
            .prop_map(|(cell, op, task, bytes)| ClientStep::Ask(cell, op, task, bytes)),
        1 => any::<u64>().prop_map(ClientStep::Post),
        2 => (0..4usize, 0..5u32).prop_map(|(cell, state)| ClientStep::Put(cell, state)),
        2 => Just(ClientStep::Ring),
        1 => Just(ClientStep::Unring),
        1 => (message, 0..4usize).prop_map(|(message, files)| ClientStep::Send(message, files)),
        2 => Just(ClientStep::Pause),
    ]
}

fn play(intruder: &Intruder, steps: Vec<ClientStep>) {
    let words: &ChannelWords = intruder.mapping.shared().unwrap();
    let channel = intruder.channel();
    for step in steps {
        match step {
            ClientStep::Write(at, word) => words.0[at].store(word, Ordering::Relaxed),
            ClientStep::Ask(cell, op, task, bytes) => intruder.post(cell, &request(op, task, bytes)),
            ClientStep::Post(cells) => channel.posted.store(cells, Ordering::Release),
            ClientStep::Put(cell, state) => channel.cells[cell].state.store(state, Ordering::Release),
            ClientStep::Ring => intruder.ring(),
            ClientStep::Unring => {
                // A number is there to be taken: a read of none would block.
                intruder.ring();
                let _ = rustix::io::read(&intruder.doorbell, &mut [0; 8]);
            }
            ClientStep::Send(message, files) => {
                let files: Vec<OwnedFd> = (0..files).map(|_| bell()).collect();
                let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
                // `mgbd` may have cut it off already.
                let _ = try_send(&intruder.socket, &message, &borrowed);
            }
            ClientStep::Pause => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Two such clients at once, and their openings too.
#[test]
fn whatever_clients_do_the_next_is_served() {
    let cases =
        std::env::var("PROPTEST_CASES").map_or(32, |text| text.parse().expect("PROPTEST_CASES is a number"));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let steps = || vec(any_step(), 0..40);
    let opening = vec(any::<u8>(), 0..64);
    runner
        .run(&(steps(), steps(), opening), |(first, second, opening)| {
            let daemon = daemon();
            let clients = [intrude(&daemon), intrude(&daemon)];
            play(&clients[0], first);
            play(&clients[1], second);
            let guest = connect(&daemon);
            let _ = try_send(&guest, &opening, &[bell().as_fd()]);
            // What they took stays charged to this process; that it is told so is what counts.
            let next = Client::connect(&daemon.socket());
            prop_assert!(next.is_ok(), "{:?}", next.err());
            let unknown = TaskId::from_raw(77).unwrap();
            let refusal = next.unwrap().grow(unknown, 1).unwrap_err();
            prop_assert!(matches!(refusal, Refusal::Protocol(_)), "{refusal}");
            Ok(())
        })
        .unwrap();
}
