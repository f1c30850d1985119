//! What `mgbd` answers.

use std::sync::atomic::Ordering;

use super::cell::{Cell, REPLY_WORDS};
use super::text::{TEXT_BYTES, Text};
use super::words::{low_high, pair};
use crate::limited::Limited;
use crate::numbering::Numbering;

/// A call's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `Begin` and `Grow`: the task may map `reserved` bytes in all on `gpu`.
    Granted {
        /// The index of the GPU.
        gpu: u32,
        /// Bytes in all.
        reserved: u64,
    },
    /// `Grow`: swap the task's own memory out, then grow again for the whole.
    SwapOut {
        /// The index of the GPU.
        gpu: u32,
    },
    /// `Begin` and `Grow`: swap the process's other tasks on `gpu` out, then
    /// ask the same again.
    SwapOthers {
        /// The index of the GPU.
        gpu: u32,
    },
    /// `Begin` with [`super::FIRST`] and without [`super::NUMBERED`]: the job's order is known from an earlier
    /// process. In it these two GPUs have changed places. Nothing was granted.
    Ordered {
        /// The index of the GPU that the task leaves.
        from: u32,
        /// The index of the GPU that the task moves to.
        to: u32,
    },
    /// The other ops: done.
    Done,
    /// It can never fit.
    NeverFits {
        /// Bytes wanted, with the context.
        wanted: u64,
        /// Bytes that the largest GPU in question has.
        largest: u64,
    },
    /// It alone goes beyond what its user, or a group of the user's, may have at once. A client that was
    /// built before there were quotas takes the answer as one that it does not know, which refuses the task
    /// as well.
    OverQuota {
        /// What is limited.
        what: Limited,
        /// How much it would be.
        wanted: u64,
        /// How much it may be.
        limit: u64,
    },
    /// No GPU of the set is shared here.
    NoGpu,
    /// Everybody waits and nobody can be swapped out.
    Deadlock,
    /// The request makes no sense; the text says why.
    Bad(Text),
    /// `mgbd` knows no such process, job or GPU.
    Unknown,
    /// It is so already.
    Unchanged,
    /// `Place`: the job's GPUs, a bit each.
    Placed {
        /// A bit for each GPU index.
        gpus: u64,
    },
    /// `Begin` with [`super::FIRST`] and [`super::NUMBERED`]: granted like [`Reply::Granted`], in a job that has
    /// this numbering from now on.
    First {
        /// The index of the GPU.
        gpu: u32,
        /// Bytes in all.
        reserved: u64,
        /// Of the job.
        numbering: Numbering,
    },
    /// The same where an earlier process of the job has begun. Nothing was granted.
    Numbered(Numbering),
    /// `Expect`: how long the program would wait for room, and how long it takes after that.
    Expected {
        /// Nanoseconds until it has room.
        waits_ns: u64,
        /// Nanoseconds from then to its end; the largest number: nothing is known of it.
        lasts_ns: u64,
    },
}

impl Reply {
    /// Writes the reply; the caller publishes it by a release store to the
    /// cell's state.
    pub fn encode(&self, cell: &Cell) {
        let mut words = [0; REPLY_WORDS];
        match *self {
            Reply::Granted { gpu, reserved } => {
                words[0] = pair(1, gpu);
                words[1] = reserved;
            }
            Reply::SwapOut { gpu } => words[0] = pair(2, gpu),
            Reply::SwapOthers { gpu } => words[0] = pair(3, gpu),
            Reply::Ordered { from, to } => {
                words[0] = pair(9, from);
                words[1] = u64::from(to);
            }
            Reply::Done => words[0] = 4,
            Reply::NeverFits { wanted, largest } => {
                words[..3].copy_from_slice(&[5, wanted, largest]);
            }
            Reply::OverQuota { what, wanted, limit } => {
                words[..3].copy_from_slice(&[pair(12, what as u32), wanted, limit]);
            }
            Reply::NoGpu => words[0] = 6,
            Reply::Deadlock => words[0] = 7,
            Reply::Unknown => words[0] = 10,
            Reply::Unchanged => words[0] = 11,
            Reply::Placed { gpus } => words[..2].copy_from_slice(&[13, gpus]),
            Reply::First {
                gpu,
                reserved,
                numbering,
            } => {
                words[..2].copy_from_slice(&[pair(14, gpu), reserved]);
                words[5..].copy_from_slice(&numbering.words());
            }
            Reply::Expected { waits_ns, lasts_ns } => {
                words[..3].copy_from_slice(&[20, waits_ns, lasts_ns]);
            }
            Reply::Numbered(numbering) => {
                words[0] = 15;
                words[5..].copy_from_slice(&numbering.words());
            }
            Reply::Bad(text) => {
                words[0] = 8;
                words[3] = u64::from(text.len);
                words[5..].copy_from_slice(&text.words);
            }
        }
        for (to, word) in cell.reply.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// Reads a reply; `None` for an unknown code.
    pub fn decode(cell: &Cell) -> Option<Reply> {
        let words: [u64; REPLY_WORDS] = std::array::from_fn(|at| cell.reply[at].load(Ordering::Relaxed));
        let (code, gpu) = low_high(words[0]);
        let numbering = || Numbering::from_words(&std::array::from_fn(|at| words[5 + at]));
        Some(match code {
            1 => Reply::Granted {
                gpu,
                reserved: words[1],
            },
            2 => Reply::SwapOut { gpu },
            3 => Reply::SwapOthers { gpu },
            4 => Reply::Done,
            5 => Reply::NeverFits {
                wanted: words[1],
                largest: words[2],
            },
            6 => Reply::NoGpu,
            7 => Reply::Deadlock,
            8 => Reply::Bad(Text {
                words: std::array::from_fn(|at| words[5 + at]),
                len: words[3].min(TEXT_BYTES as u64) as u32,
            }),
            9 => Reply::Ordered {
                from: gpu,
                to: words[1] as u32,
            },
            10 => Reply::Unknown,
            11 => Reply::Unchanged,
            12 => Reply::OverQuota {
                what: Limited::of(gpu),
                wanted: words[1],
                limit: words[2],
            },
            13 => Reply::Placed { gpus: words[1] },
            14 => Reply::First {
                gpu,
                reserved: words[1],
                numbering: numbering()?,
            },
            15 => Reply::Numbered(numbering()?),
            20 => Reply::Expected {
                waits_ns: words[1],
                lasts_ns: words[2],
            },
            _ => return None,
        })
    }
}
