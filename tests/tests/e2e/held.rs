//! Batch programs beside a latency program that dies, and under an mgbd that dies: whatever happens, no
//! launch waits for long, and half of any time is the batch program's own. Who lies is in the scheduler's
//! `pace` tests.
//!
//! `make test` plays a few rounds, `make kill-test` a thousand (`MGB_HELD_ROUNDS`).

use std::time::{Duration, Instant};
use std::{env, thread};

use mgb_tests::generate::draw::Draw;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{Ended, RunningProgram};
use mgb_tests::{built, trace, wait};
use rustix::process::Signal;

/// What a batch program does: MiB, rounds of one short kernel each, without pauses between.
const BATCH: [&str; 5] = ["2", "300", "0", "4", "8"];
/// No round of it takes longer: a hold is 20 ms at most, the rest is a busy machine's.
const LONGEST_ROUND: Duration = Duration::from_secs(2);

/// Who is killed in a round, at a random moment.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The latency program, while it holds others.
    Latency,
    /// mgbd, after which another one comes.
    Mgbd,
    /// One of those that are held.
    Held,
}

const VICTIMS: [Victim; 3] = [Victim::Latency, Victim::Mgbd, Victim::Held];

fn start(node: &PrivateNode, class: &str, rounds: &[&str], file: &str) -> RunningProgram {
    let mut command = node.command(built::program("pauses"), rounds);
    command.env("MGB", "require").env("MGB_CLASS", class);
    RunningProgram::start(command.env("MGB_TRACE", node.folder().join(file)))
}

/// How long a program's longest round took, by its own word.
fn longest_round(ended: &Ended) -> Duration {
    let seconds = |line: &str| {
        line.strip_prefix("round ")?
            .split(' ')
            .nth(1)?
            .parse::<f64>()
            .ok()
    };
    let rounds = ended.stderr.lines().filter_map(seconds);
    Duration::from_secs_f64(rounds.fold(0.0, f64::max))
}

#[test]
fn whoever_dies_others_go_on() {
    let rounds: usize =
        env::var("MGB_HELD_ROUNDS").map_or(6, |text| text.parse().expect("MGB_HELD_ROUNDS is a number"));
    let mut node = PrivateNode::start_alone("1x64MiB", "mgb");
    let mut draw = Draw::new(0x5eed);
    let (mut longest, mut held) = (Duration::ZERO, Duration::ZERO);
    for round in 0..rounds {
        let victim = VICTIMS[round % VICTIMS.len()];
        let file = format!("trace-{round}.jsonl");
        let program = start(&node, "latency", &["2", "100000", "0", "4", "8"], "latency.jsonl");
        let began = Instant::now();
        let batch = start(&node, "batch", &BATCH, &file);
        let other = start(&node, "batch", &BATCH, "other.jsonl");
        wait::until("it is held", || {
            let tasks = node.view().tasks;
            let own = tasks.iter().find(|task| task.pid == batch.pid());
            (own.is_some_and(|task| task.paused_ms > 0) || began.elapsed() > LONGEST_ROUND).then_some(())
        });
        // The random moment is the point of this test.
        thread::sleep(Duration::from_micros(draw.below(100_000) as u64));
        match victim {
            Victim::Latency => program.signal(Signal::KILL),
            Victim::Mgbd => {
                node.kill_mgbd();
                thread::sleep(Duration::from_micros(draw.below(100_000) as u64));
                node.start_mgbd("mgb");
            }
            Victim::Held => other.signal(Signal::KILL),
        }
        let ended = batch.end();
        let lasted = began.elapsed();
        assert!(
            ended.code() == 0 && ended.stdout.ends_with("PASS\n"),
            "round {round}, {victim:?}: {ended:?}"
        );
        let slowest = longest_round(&ended);
        assert!(
            slowest < LONGEST_ROUND,
            "round {round}, {victim:?}: a launch took {slowest:?}"
        );
        let paused = paused(&node, &file);
        assert!(
            paused <= lasted / 2 + Duration::from_millis(100),
            "round {round}, {victim:?}: held for {paused:?} of {lasted:?}"
        );
        longest = longest.max(slowest);
        held += paused;
        program.signal(Signal::KILL);
        drop(program);
        drop(other.end());
        node.wait_until_empty();
    }
    assert!(!held.is_zero(), "nobody was held, so this has shown nothing");
    eprintln!("{rounds} rounds: held for {held:?} in all, the longest round of a batch program {longest:?}");
}

/// For how long a program's launches were held, by the line that it left.
fn paused(node: &PrivateNode, file: &str) -> Duration {
    let processes = trace::read(&node.folder().join(file)).expect("it has left a line");
    Duration::from_nanos(processes.iter().map(|process| process.paused_ns).sum())
}
