//! Sources that attack the pass (`mgb_tests::generate::attack`), in all arrangements: each answers as it does
//! natively, and none hangs. A source that fails is kept, with the command that plays it again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use mgb_tests::generate::attack::{ALL, Features, PROGRAMS};

use crate::arrangements::Nodes;
use crate::settings;
use crate::sources::Built;

/// From so many sources on, tasks of some must have moved.
const MANY: u64 = 20;
/// So many failing sources say enough.
const MAX_FAILURES: usize = 40;

#[test]
fn attacks_are_answered_as_natively() {
    let (first, sources) = (settings::first(), settings::sources(4));
    let (features, names) = settings::features();
    let nodes = Nodes::start();
    let (next, began) = (AtomicU64::new(first), Instant::now());
    let (failures, played) = (
        Mutex::new(Vec::<String>::new()),
        Mutex::new(Vec::<Features>::new()),
    );
    let workers = 2 * thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + sources
                        || failures.lock().expect("no thread panicked").len() >= MAX_FAILURES
                    {
                        break;
                    }
                    let result = Built::new(nodes.folder(), seed, &features, None).and_then(|built| {
                        let played = nodes.play(&built).map_err(|wrong| built.keep(&wrong.why));
                        let own = built.source.features.clone();
                        built.forget();
                        played.map(|()| own)
                    });
                    match result {
                        Ok(own) => played.lock().expect("no thread panicked").extend(own),
                        Err(text) => {
                            println!("{text}");
                            failures.lock().expect("no thread panicked").push(text);
                        }
                    }
                }
            });
        }
    });
    let played = played.into_inner().expect("no thread panicked");
    println!(
        "{} sources, {} programs right in all arrangements, {:.0} s; features {names}",
        next.into_inner().min(first + sources) - first,
        played.len(),
        began.elapsed().as_secs_f64(),
    );
    for (feature, name) in ALL {
        let count = played.iter().filter(|own| own.has(feature)).count();
        println!("  {name}: {count} programs");
    }
    let failures = failures.into_inner().expect("no thread panicked");
    assert!(
        failures.is_empty(),
        "{} of {sources} sources fail, of {PROGRAMS} programs each:\n\n{}",
        failures.len(),
        failures.join("\n")
    );
    let (moved, evicted) = nodes.end(sources >= MANY);
    println!("  {moved} moves, {evicted} evictions from the small GPU");
}
