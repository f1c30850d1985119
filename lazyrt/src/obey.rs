//! What mgbd orders this process to do at any time; the agent's thread does it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgb_core::agent::{self, Done, Duties};
use mgb_core::work;
use mgb_probe::wire::{MAX_GPUS, Order};

use crate::{contexts, device, relocate, session, swap};

/// Has mgbd's orders obeyed from here on: the process has a context.
pub fn start() {
    if let Some(client) = session::client() {
        let gpus = || contexts::gpus().collect();
        agent::start(client, Duties { obey, look, gpus });
    }
}

/// How long a look may wait for a GPU.
const LOOK_TIMEOUT: Duration = Duration::from_millis(10);

/// The marks of the last look, by GPU; 0: none.
static MARKS: [AtomicU64; MAX_GPUS] = [const { AtomicU64::new(0) }; MAX_GPUS];

/// Launches in flight at the last look, by GPU.
static LAUNCHES: [AtomicU32; MAX_GPUS] = [const { AtomicU32::new(0) }; MAX_GPUS];

/// A program that copies to the GPU and then works on the host does not ask whether the copy is done. So
/// where nothing new was given since the last look, and no thread of the program waits for the GPU, this
/// waits a little. A longer kernel is waited for once, by one thread (`gpu_idle`). So it does where no launch has come
/// and none is known to be done: a program may never ask for that, nor say what else it gives the GPU.
fn look() {
    for gpu in contexts::gpus() {
        let last = &MARKS[gpu as usize % MAX_GPUS];
        let mark = last.load(Ordering::Relaxed);
        let launches = session::launches_in_flight(gpu);
        let before = LAUNCHES[gpu as usize % MAX_GPUS].swap(launches, Ordering::Relaxed);
        let are_unchanged = launches != 0 && launches == before;
        if mark != 0 && work::is_unchanged(gpu, mark) || are_unchanged {
            if let Ok(ordinal) = device::ordinal(gpu) {
                swap::settles(gpu, ordinal, Instant::now() + LOOK_TIMEOUT);
            }
        } else {
            last.store(work::mark(gpu).unwrap_or(0), Ordering::Relaxed);
        }
    }
}

fn obey(order: Order) -> Done {
    match order {
        // The tasks ask for room again by themselves.
        Order::Evict { gpu } => Done {
            freed: swap::out_idle(gpu),
        },
        Order::Suspend { gpu } => Done {
            freed: swap::out_suspended(gpu),
        },
        Order::Move { task, gpu, to } => Done {
            freed: relocate::task(task, gpu, to),
        },
    }
}
