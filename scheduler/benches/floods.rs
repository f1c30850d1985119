//! How long honest clients wait for their grants beside a hostile process, and what `mgbd` has in memory
//! after it: `cargo bench -p mgb-scheduler --bench floods`; words after `--` choose kinds of attack, and
//! `many` alone has a million tasks go through one mgbd with a thousand clients.
//!
//! mgbd and the honest clients have the first core, the hostile process the second, and the lowest rank
//! there. Where there are three cores the honest clients have the third. Before it, a process that only
//! computes has its place: so what it takes of the second core does not count, and what differs is what it
//! makes mgbd do.

#[path = "../tests/floods/mod.rs"]
mod floods;
#[path = "../tests/common/raw.rs"]
mod raw;

use std::time::Duration;

use floods::{AttackKind, FloodStage, GrantWaits};

/// Tasks of each honest client that are measured at a time.
const ROUNDS: u64 = 500;
/// Times that it is measured, of which the one with the median p99 counts: others use the machine too.
const TIMES: usize = 5;
/// Until an attack has come to what it does in the long run.
const SETTLES: Duration = Duration::from_millis(300);

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// The waits of the time with the median p99, and how long mgbd computes for a grant, in nanoseconds.
fn measure(stage: &mut FloodStage) -> (GrantWaits, u64) {
    let began = stage.mgbd.cpu_ns();
    let mut times: Vec<GrantWaits> = (0..TIMES).map(|_| stage.go(ROUNDS)).collect();
    let computed = stage.mgbd.cpu_ns() - began;
    let granted: u64 = times.iter().map(|waits| waits.granted).sum();
    times.sort_by_key(|waits| waits.p99);
    (times[TIMES / 2], computed / granted.max(1))
}

/// A million tasks through one `mgbd` with a thousand clients: what it has in memory and how long grants
/// take, as the tasks go by.
fn many() {
    let mut stage = FloodStage::new(false);
    let crowd = stage.attack(AttackKind::Crowd);
    println!("clients: {}", stage.view().clients);
    println!("  tasks  median    p99  cpu   RSS KiB  (microseconds)");
    let slice = 100_000 / floods::CLIENTS as u64;
    for tasks in (1..=10).map(|slices| slices * 100_000) {
        let began = stage.mgbd.cpu_ns();
        let waits = stage.go(slice);
        let cpu = (stage.mgbd.cpu_ns() - began) / waits.granted.max(1);
        let rss = stage.mgbd.resident_bytes() >> 10;
        println!(
            "{tasks:7} {:7.1} {:6.1} {:4.1} {rss:9}",
            us(waits.median),
            us(waits.p99),
            us(cpu)
        );
    }
    drop(crowd);
    stage.finish();
}

fn main() {
    floods::play_own_part();
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    if words == ["many"] {
        return many();
    }
    println!(
        "from request to grant, microseconds: {} honest clients\n",
        floods::CLIENTS
    );
    println!("attack       beside Burn         | beside it           |  p99  | RSS KiB                 |");
    println!(
        "             median    p99  cpu | median    p99  cpu | times | before  during   after |   log KiB offenders"
    );
    for kind in AttackKind::ALL {
        let name = kind.to_string();
        if !words.is_empty() && !words.contains(&name) {
            continue;
        }
        let mut stage = FloodStage::new(true);
        // A second core at rest makes the first one slower: what only computes there is the measure.
        let burning = stage.attack(AttackKind::Burn);
        stage.go(ROUNDS);
        let (before, cpu_before) = measure(&mut stage);
        drop(burning);
        let rss = stage.mgbd.resident_bytes();
        let hostile = stage.attack(kind);
        std::thread::sleep(SETTLES);
        let (during, cpu_during) = measure(&mut stage);
        let rss_during = stage.mgbd.resident_bytes();
        let log = stage.log_bytes();
        drop(hostile);
        std::thread::sleep(SETTLES);
        let offenders = stage.view().counts.offenders;
        println!(
            "{name:11} {:7.1} {:6.1} {:4.1} |{:7.1} {:6.1} {:4.1} | {:5.2} | {:7} {:7} {:7} | {:9} {offenders:9}",
            us(before.median),
            us(before.p99),
            us(cpu_before),
            us(during.median),
            us(during.p99),
            us(cpu_during),
            during.p99 as f64 / before.p99 as f64,
            rss >> 10,
            rss_during >> 10,
            stage.mgbd.resident_bytes() >> 10,
            log >> 10,
        );
        stage.finish();
    }
}
