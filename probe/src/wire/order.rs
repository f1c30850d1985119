//! An order: what `mgbd` asks of a client by itself, at any time. The client's agent, a thread of MGB's own,
//! sleeps on it.
//!
//! `mgbd` writes the words, then the order's number, and wakes the agent. The agent answers with
//! [`super::Op::Obeyed`] and that number, and is given the next order only then. `mgbd` does not wait for it:
//! who does not answer within some time is passed over, and what it holds stays charged.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::sync;

/// The name of the agent's thread. It lives as long as the program that connected: see mgbd's `family`.
pub const AGENT: &str = "mgb-agent";

/// The words of a client's order.
#[repr(C, align(64))]
pub struct OrderWords {
    /// The number of the last order; 0: there was none. The agent sleeps on it.
    number: sync::AtomicU32,
    /// Written by the client: not 0 while its agent listens.
    listens: AtomicU32,
    what: AtomicU32,
    gpu: AtomicU32,
    to: AtomicU32,
    /// The low and the high half.
    task: [AtomicU32; 2],
    /// Why `mgbd` is about to end the process; 0: it is not.
    ends: AtomicU32,
    reserved: [AtomicU32; 8],
}

/// Why `mgbd` ends a process, as an administrator wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsFor {
    /// It has more of a GPU than it was granted.
    Memory,
    /// A task of it has had its memory for longer than its user may.
    Time,
    /// What a newer `mgbd` says by a number that is not known here.
    Unknown,
}

/// What a client is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Bring the memory of the process's tasks on this GPU to the host, if they have no work there, and free
    /// it on the GPU. The tasks ask for room again when they go on.
    Evict {
        /// The index of the GPU.
        gpu: u32,
    },
    /// The same, because a person has suspended the process: work that is under way is waited for, and no
    /// more is given to the GPU meanwhile.
    Suspend {
        /// The index of the GPU.
        gpu: u32,
    },
    /// Bring a task that may go on elsewhere, with all its memory, from the GPU where it is to another one,
    /// where it has room. Work that is under way is waited for. If that is done, the client says so with
    /// [`super::Op::Moved`] before the task goes on, and else leaves all as it is.
    Move {
        /// The client's number for the task.
        task: u64,
        /// The index of the GPU.
        gpu: u32,
        /// The GPU where it goes.
        to: u32,
    },
}

impl Order {
    /// The GPU that memory is to leave.
    pub fn gpu(self) -> u32 {
        match self {
            Order::Evict { gpu } | Order::Suspend { gpu } | Order::Move { gpu, .. } => gpu,
        }
    }
}

impl OrderWords {
    /// `mgbd` gives an order. The number is not 0, nor that of the order before.
    pub fn give(&self, number: u32, order: Order) {
        let what = match order {
            Order::Evict { .. } => 1,
            Order::Suspend { .. } => 2,
            Order::Move { task, to, .. } => {
                let [low, high] = &self.task;
                low.store(task as u32, Ordering::Relaxed);
                high.store((task >> 32) as u32, Ordering::Relaxed);
                self.to.store(to, Ordering::Relaxed);
                3
            }
        };
        self.what.store(what, Ordering::Relaxed);
        self.gpu.store(order.gpu(), Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
        sync::wake(&self.number);
    }

    /// `mgbd` is about to end the process: its agent says why.
    pub fn explain(&self, why: EndsFor) {
        let number = match why {
            EndsFor::Memory => 1,
            EndsFor::Time => 2,
            EndsFor::Unknown => u32::MAX,
        };
        self.ends.store(number, Ordering::Release);
        sync::wake(&self.number);
    }

    /// Why `mgbd` is about to end the process; `None`: it is not.
    pub(crate) fn ends_for(&self) -> Option<EndsFor> {
        match self.ends.load(Ordering::Acquire) {
            0 => None,
            1 => Some(EndsFor::Memory),
            2 => Some(EndsFor::Time),
            _ => Some(EndsFor::Unknown),
        }
    }

    /// The number of the last order.
    pub fn last(&self) -> u32 {
        self.number.load(Ordering::Acquire)
    }

    /// Whether the client says that its agent listens.
    pub fn is_heard(&self) -> bool {
        self.listens.load(Ordering::Acquire) != 0
    }

    /// The client's agent listens, or does so no longer.
    pub(crate) fn listen(&self, listens: bool) {
        self.listens.store(u32::from(listens), Ordering::Release);
    }

    /// The order after the one of the number `last`, with its number; waits for it, `patience` at most.
    /// `None`: none came, or one that this version does not know.
    pub(crate) fn next(&self, last: &mut u32, patience: Duration) -> Option<(u32, Order)> {
        let mut number = self.number.load(Ordering::Acquire);
        if number == *last {
            sync::wait(&self.number, *last, patience);
            number = self.number.load(Ordering::Acquire);
        }
        if number == *last {
            return None;
        }
        *last = number;
        let gpu = self.gpu.load(Ordering::Relaxed);
        let order = match self.what.load(Ordering::Relaxed) {
            1 => Order::Evict { gpu },
            2 => Order::Suspend { gpu },
            3 => {
                let [low, high] = &self.task;
                let half = |word: &AtomicU32| u64::from(word.load(Ordering::Relaxed));
                Order::Move {
                    task: half(low) | half(high) << 32,
                    gpu,
                    to: self.to.load(Ordering::Relaxed),
                }
            }
            _ => return None,
        };
        Some((number, order))
    }
}
