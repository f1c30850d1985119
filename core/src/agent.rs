//! The agent: a thread of MGB's own that carries out what mgbd orders at any time. It exists once the process
//! has something on a GPU.
//!
//! With `MGB_EVICT_EVERY=MS` it evicts all that the process has by itself as well, at random times about so
//! many milliseconds apart: no program may notice that.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mgb_probe::Client;
use mgb_probe::wire::{AGENT, EndsFor, Order};

use crate::own_thread;

/// How often the agent looks whether mgbd is still there, and whether others wait.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(250);
/// How often it looks at the GPUs' work while others wait.
const LOAD_INTERVAL: Duration = Duration::from_millis(50);

/// The process that the agent runs in: a forked child has none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// What came of an order.
#[derive(Default)]
pub struct Done {
    /// Bytes of a GPU that are free now and were not.
    pub freed: u64,
}

/// What the agent does. All is called without a lock, one after another.
#[derive(Clone, Copy)]
pub struct Duties {
    /// Carries an order out as far as it can be.
    pub obey: fn(Order) -> Done,
    /// While others wait, now and then: publishes that work has finished, where the program does not ask.
    pub look: fn(),
    /// The GPUs where the process may have memory.
    pub gpus: fn() -> Vec<u32>,
}

/// Starts the agent, unless it runs already. Where the system refuses a thread, mgbd is told of no agent and
/// orders nothing.
pub fn start(client: &'static Client, duties: Duties) {
    let own = std::process::id();
    if PROCESS.swap(own, Ordering::AcqRel) == own {
        return;
    }
    if own_thread::start(AGENT, move || listen(client, duties)).is_none() {
        PROCESS.store(0, Ordering::Release);
    }
}

fn listen(client: &Client, duties: Duties) {
    let mut last = 0;
    let mut unasked = Unasked::wanted();
    client.listens(true);
    obey(client, duties, &mut last, &mut unasked);
    // mgbd knows by this thread that the process still runs the program which connected, though it may have
    // closed all its files: it is the first that a program which is executed in its place does not have.
    loop {
        std::thread::park();
    }
}

fn obey(client: &Client, duties: Duties, last: &mut u32, unasked: &mut Option<Unasked>) {
    let mut is_explained = false;
    while client.is_connected() {
        let others_wait = client.others_wait();
        if others_wait {
            (duties.look)();
        }
        let mut patience = if others_wait {
            LOAD_INTERVAL
        } else {
            LIVENESS_INTERVAL
        };
        if let Some(unasked) = unasked {
            patience = patience.min(unasked.left());
        }
        if let Some((number, order)) = client.next_order(last, patience) {
            let done = (duties.obey)(order);
            client.obeyed(number, done.freed);
        }
        if let Some(why) = client.ends_for().filter(|_| !is_explained) {
            explain(why);
            is_explained = true;
        }
        if let Some(unasked) = unasked.as_mut().filter(|unasked| unasked.left().is_zero()) {
            for gpu in (duties.gpus)() {
                (duties.obey)(Order::Evict { gpu });
            }
            unasked.plan();
        }
    }
}

/// Says why mgbd ends this program, which then comes by a signal that says nothing.
fn explain(why: EndsFor) {
    let why = match why {
        EndsFor::Memory => ": it has more GPU memory than it was granted, and than the administrator allows",
        EndsFor::Time => ": a task of it has had its GPU memory for longer than its user may (`mgb quota`)",
        EndsFor::Unknown => "",
    };
    mgb_stderr::say!("mgb: mgbd ends this program{why}");
}

/// Evictions that nobody ordered.
struct Unasked {
    /// Milliseconds between two, on average.
    every: u64,
    random: u64,
    next: Instant,
}

impl Unasked {
    fn wanted() -> Option<Unasked> {
        let every = std::env::var("MGB_EVICT_EVERY").ok()?.parse().ok()?;
        let random = u64::from(std::process::id()) << 32 | 1;
        let next = Instant::now();
        let mut unasked = Unasked { every, random, next };
        unasked.plan();
        Some(unasked)
    }

    fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    fn plan(&mut self) {
        // Xorshift: it need not be good.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let micros = self.random % (2000 * self.every.clamp(1, 1 << 20));
        self.next = Instant::now() + Duration::from_micros(micros);
    }
}
