//! Killing: a client that dies by SIGKILL loses its room at once, harms nobody, and leaves the ledger empty.
//!
//! A round is eight clients on one GPU that holds five of them; one is killed at a random moment. `make test`
//! plays ten rounds, `make kill-test` two hundred (`MGB_KILL_ROUNDS`).

use std::time::{Duration, Instant};
use std::{env, thread};

use mgb_tests::built;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::RunningProgram;
use mgb_tests::wait;
use rustix::process::Signal;

/// How soon after its death a client's room must be marked, in nine rounds of ten: a busy machine may stop
/// for a moment.
const MARKED_WITHIN: Duration = Duration::from_millis(100);
/// And in every round.
const MARKED_AT_LAST: Duration = Duration::from_secs(1);

/// What a client holds: of the 64 MiB five times this and the contexts fit.
const ARGUMENTS: [&str; 6] = ["11", "3", "20", "wait", "4", "8"];

#[test]
fn one_of_eight_is_killed() {
    play(&[]);
}

/// In most moments some memory is on its way to the host or back.
#[test]
fn one_of_eight_is_killed_while_memory_leaves() {
    play(&[("MGB_EVICT_EVERY", "3")]);
}

fn play(settings: &[(&str, &str)]) {
    let rounds =
        env::var("MGB_KILL_ROUNDS").map_or(10, |text| text.parse().expect("MGB_KILL_ROUNDS is a number"));
    let program = built::program("phases");
    let node = PrivateNode::start_alone("1x64MiB", "mgb");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut slowest, mut late, mut held) = (Duration::ZERO, 0, 0);
    let mut typical = Duration::from_millis(200);
    for round in 0..rounds {
        let mut clients: Vec<RunningProgram> = (0..8)
            .map(|_| {
                let mut command = node.command(&program, &ARGUMENTS);
                command.env("MGB", "require").envs(settings.iter().copied());
                RunningProgram::start(&mut command)
            })
            .collect();
        let victim = clients.remove(random.below(8));
        // The random moment is the point of this test: from before the victim's first call to after its end.
        let began = Instant::now();
        thread::sleep(Duration::from_micros(
            random.below(typical.as_micros() as usize) as u64
        ));
        let pid = victim.pid();
        held += u32::from(holds(&node.view(), pid));
        victim.signal(Signal::KILL);
        drop(victim);
        let died = Instant::now();
        wait::until("the victim's room is marked", || {
            (!holds(&node.view(), pid)).then_some(())
        });
        let marked = died.elapsed();
        slowest = slowest.max(marked);
        late += u32::from(marked >= MARKED_WITHIN);
        let by_mgbd = node.view().reclaims;
        assert!(
            marked < MARKED_AT_LAST,
            "round {round}: marked after {marked:?}; by mgbd: {by_mgbd:?}"
        );
        for client in clients {
            assert_eq!(
                client.end().success(),
                "phases: mib=11 rounds=3 steps=4 PASS\n",
                "round {round}"
            );
        }
        typical = began.elapsed();
        node.wait_until_empty();
    }
    assert!(
        late * 10 <= rounds,
        "{late} of {rounds} rounds were marked after more than {MARKED_WITHIN:?}, one after {slowest:?}"
    );
    let counts = node.view().counts;
    assert_eq!(counts.refused, 0, "nobody is refused: {counts:?}");
    eprintln!("{rounds} rounds, in {held} of them the victim held room; slowest mark {slowest:?}");
}

/// A small generator of random numbers (xorshift): the same rounds every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
