//! Honest clients: each a thread with a connection of its own, which begins and ends one task after the
//! other, with a short pause as a program has that computes.

use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use mgb_probe::{BeginRequest, Client, Need};

use super::GIB;

/// How many there are.
pub const CLIENTS: usize = 16;
/// Between two tasks.
const PAUSE: Duration = Duration::from_millis(1);
/// Tasks of each before anything counts.
const WARM: u64 = 50;

/// Nanoseconds until each of these grants.
fn rounds(client: &Client, rounds: u64) -> Vec<u64> {
    let request = BeginRequest {
        need: Need {
            mapped_bytes: GIB,
            grid_blocks: 16,
            block_threads: 64,
            ..Need::default()
        },
        name: Some("good"),
        ..BeginRequest::default()
    };
    let one = |_| {
        let start = Instant::now();
        let grant = client.begin(&request).expect("there is room");
        let took = start.elapsed();
        assert!(grant.gpu < 2 && grant.reserved_bytes == GIB, "{grant:?}");
        client.end(grant.task, 0);
        std::thread::sleep(PAUSE);
        took.as_nanos() as u64
    };
    (0..rounds).map(one).collect()
}

/// Says that it is ready, and after each number of rounds that it reads, how long grants took.
pub fn play(socket: &Path) {
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::connect(socket).expect("mgbd answers"))
        .collect();
    all(&clients, WARM);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let count = line.expect("a line").parse().expect("a number");
        let mut took = all(&clients, count);
        took.sort_unstable();
        let part = |of: usize| took[(took.len() - 1) * of / 100];
        println!("done {} {} {}", part(50), part(99), took.len());
    }
}

fn all(clients: &[Client], count: u64) -> Vec<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(move || rounds(client, count)))
            .collect();
        let took = threads.into_iter().map(|thread| thread.join().expect("good"));
        took.flatten().collect()
    })
}
