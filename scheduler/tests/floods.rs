//! Hostile processes beside honest clients, one kind after the other: `mgbd` stays, what it has in memory
//! stays bounded, and honest clients get what they ask for. How soon they get it is the bench's matter, which
//! has the same name.

#[path = "floods/mod.rs"]
mod floods;
#[path = "common/raw.rs"]
mod raw;

use std::time::{Duration, Instant};

use floods::{AttackKind, CLIENTS, FloodStage};

/// Tasks that each honest client begins and ends beside each kind.
const ROUNDS: u64 = 100;
/// Most that `mgbd` may grow by beside one kind: what it keeps of a user's tasks and waiting requests at
/// most is some 11 MiB, and what it does to tell of them comes on top.
const MOST_GROWTH: u64 = 48 << 20;
/// Threads that may have begun beside one kind and stay a while: two of its user at each of the closer's
/// lines, and for each thing that is looked up beside the loop. A pool's threads end 10 s after their last
/// job.
const MOST_THREADS: usize = 8;
/// Most that its log may grow by: who does wrong again and again is told of now and then.
const MOST_LOG: u64 = 256 << 10;

/// Not a test: what the test starts as processes.
#[test]
fn own_part() {
    floods::play_own_part();
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn whatever_floods_mgbd_the_others_are_served() {
    for kind in AttackKind::ALL {
        let mut stage = FloodStage::new(false);
        // Before anybody looks at the view, who has descriptors there for a moment.
        let (descriptors, threads) = stage.mgbd.descriptors_and_threads();
        let (pid, before) = (stage.view().mgbd_pid, stage.mgbd.resident_bytes());
        assert_eq!(pid, stage.mgbd.pid());
        let hostile = stage.attack(kind);
        let served = stage.go(ROUNDS);
        assert_eq!(served.granted, ROUNDS * CLIENTS as u64, "{kind}");
        if kind.offends() {
            wait_for("an offender to be counted", || stage.view().counts.offenders > 0);
        }
        let during = stage.mgbd.resident_bytes();
        drop(hostile);
        assert_eq!(stage.go(ROUNDS).granted, served.granted, "{kind}");
        let holds_nothing = || {
            let view = stage.view();
            let is_good = |label: &str| label == "good";
            view.queue.is_empty() && view.tasks.iter().all(|task| is_good(&task.label))
        };
        wait_for("all of the hostile process to be gone", holds_nothing);
        wait_for(
            "its descriptors, its user's view and its threads to be gone",
            || {
                let after = stage.mgbd.descriptors_and_threads();
                after.0 <= descriptors && after.1 <= threads + MOST_THREADS
            },
        );
        let after = stage.mgbd.resident_bytes();
        let grew = during.max(after).saturating_sub(before);
        assert!(grew <= MOST_GROWTH, "{kind}: mgbd grew by {grew} bytes");
        assert!(
            stage.log_bytes() <= MOST_LOG,
            "{kind}: a log of {} bytes",
            stage.log_bytes()
        );
        stage.end_good();
        wait_for("the ledger to be empty", || {
            let gpus = stage.view().gpus;
            gpus.iter()
                .all(|gpu| gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes == 0)
        });
        assert_eq!(stage.view().mgbd_pid, pid, "{kind}");
        stage.finish();
    }
}
