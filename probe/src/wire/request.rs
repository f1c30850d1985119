//! What a client asks.

use std::sync::atomic::Ordering;

use super::cell::{Cell, REQUEST_WORDS};
use super::text::{TEXT_BYTES, Text};
use super::words::{low_high, pair};
use crate::need::Need;

/// What a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Op {
    /// A GPU and room for a new task. May wait.
    Begin = 1,
    /// `bytes` more for a task, on its GPU. May wait.
    Grow = 2,
    /// The task's memory left the GPU: `bytes` less are reserved.
    Swapped = 3,
    /// `bytes` of the reservation are not needed any more.
    GiveBack = 4,
    /// The task is over; `bytes` of it stay mapped.
    End = 5,
    /// A turn at the driver, which makes one process after another ready on the whole node. May wait.
    Turn = 6,
    /// The turn is over.
    TurnOver = 7,
    /// The order of the number `task` was carried out as far as it could be: `bytes` are free that were not.
    Obeyed = 8,
    /// A person wants a process to have nothing on any GPU: `task` is its process id, or a job's number with
    /// [`OF_JOB`]. Only from an observer, as those below.
    Suspend = 9,
    /// And to go on.
    Resume = 10,
    /// A person wants the GPU of the index `task` to become empty.
    Drain = 11,
    /// And to be used again.
    EndDrain = 12,
    /// A person wants the process of the id `task` to go on, on the GPU of the index `bytes`.
    Move = 13,
    /// The task is on the GPU that an order named, with all its memory.
    Moved = 14,
    /// A request for room that the task waits with is not wanted any more: it is answered
    /// [`super::Reply::Unchanged`], unless it is answered already. Since version 13.
    Withdraw = 15,
    /// GPUs for a job that uses several: `bytes` of those in `gpus`, for the job with the number `task`.
    /// Since version 13.
    Place = 16,
    /// When a program would end that is started now: the one that `mgb run` numbers `bytes`, with this need
    /// and deadline, whose processes are the job `task`. Since version 14.
    Expect = 20,
    /// The process is a latency program from here on. Answered [`super::Reply::Done`], or
    /// [`super::Reply::Unchanged`] where its user may run none. Since version 15.
    BecomeLatency = 21,
}

impl Op {
    fn from_u32(raw: u32) -> Option<Op> {
        Some(match raw {
            1 => Op::Begin,
            2 => Op::Grow,
            3 => Op::Swapped,
            4 => Op::GiveBack,
            5 => Op::End,
            6 => Op::Turn,
            7 => Op::TurnOver,
            8 => Op::Obeyed,
            9 => Op::Suspend,
            10 => Op::Resume,
            11 => Op::Drain,
            12 => Op::EndDrain,
            13 => Op::Move,
            14 => Op::Moved,
            15 => Op::Withdraw,
            16 => Op::Place,
            20 => Op::Expect,
            21 => Op::BecomeLatency,
            _ => return None,
        })
    }
}

/// [`Request::flags`]: the task is the whole process; its room stays until the
/// process dies, whatever becomes of the channel.
pub const WHOLE_PROCESS: u32 = 1;
/// [`Request::flags`]: the turn is to make a context, by a driver that is initialised.
pub const MAKES_CONTEXT: u32 = 2;

/// [`Request::flags`]: the process begins its first task, on its first device. Of a job's processes the first
/// one is granted a GPU, and the others are answered [`super::Reply::Ordered`].
pub const FIRST: u32 = 4;

/// [`Request::flags`], beside [`FIRST`]: the process knows [`crate::Numbering`]s, and is answered
/// [`super::Reply::First`] or [`super::Reply::Numbered`]. Since version 13.
pub const NUMBERED: u32 = 64;

/// [`Request::flags`], of [`Op::Grow`]: the task has nothing on its GPU and may go on, on any of `gpus`. The
/// answer says on which.
pub const ELSEWHERE: u32 = 32;

/// [`Request::flags`], of [`Op::Suspend`] and [`Op::Resume`]: `task` is the number of a job, of the asking
/// user's own. From who administers the node: of the user whose number, and one, is in `bytes`; 0: of all.
pub const OF_JOB: u32 = 8;
/// The same: `task` is a process id, and all processes of its job are meant.
pub const WHOLE_JOB: u32 = 16;

/// [`Request::flags`], of [`Op::Expect`]: it is started now, by the process that asks, which becomes it.
pub const STARTS: u32 = 128;
/// [`Request::flags`], of [`Op::Begin`]: the deadline is that of the whole process. Since version 14.
pub const PROCESS_DEADLINE: u32 = 256;

/// A call's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub op: Op,
    /// [`WHOLE_PROCESS`], [`MAKES_CONTEXT`], [`FIRST`], [`NUMBERED`], [`OF_JOB`], [`WHOLE_JOB`],
    /// [`ELSEWHERE`], [`STARTS`], [`PROCESS_DEADLINE`].
    pub flags: u32,
    /// The client's name for the task.
    pub task: u64,
    /// Thread that asks, and waits.
    pub thread: u32,
    /// Number of the task's site in its module, 0: none.
    pub site: u32,
    /// GPUs the task may be placed on, by index.
    pub gpus: u64,
    /// The bytes that the request is about: each [`Op`] says which.
    pub bytes: u64,
    /// What a beginning task needs.
    pub need: Need,
    /// With [`FIRST`]: the GPU that `CUDA_VISIBLE_DEVICES` names first, by index.
    pub first: u32,
    /// What people know the task by.
    pub label: Text,
}

impl Request {
    /// Whether the caller waits for room on a GPU until it is answered.
    pub fn asks_for_room(&self) -> bool {
        matches!(self.op, Op::Begin | Op::Grow)
    }

    /// Whether a person gives it, and not a program.
    pub fn is_control(&self) -> bool {
        matches!(
            self.op,
            Op::Suspend | Op::Resume | Op::Drain | Op::EndDrain | Op::Move
        )
    }

    /// Whether the answer may have to wait for others.
    pub fn may_wait(&self) -> bool {
        matches!(self.op, Op::Begin | Op::Grow | Op::Turn)
    }

    /// Writes the request; the caller owns the cell and publishes it by a
    /// release store to its state.
    pub fn encode(&self, cell: &Cell) {
        let need = &self.need;
        let mut words = [0; REQUEST_WORDS];
        words[..14].copy_from_slice(&[
            pair(self.op as u32, self.flags),
            self.task,
            pair(self.thread, self.site),
            self.gpus,
            self.bytes,
            need.peak_bytes,
            need.mapped_bytes,
            need.grid_blocks,
            pair(need.block_threads, need.registers),
            pair(need.shared_bytes, need.priority),
            need.heap_bytes,
            need.deadline_ns,
            pair(need.flags, self.label.len),
            u64::from(self.first),
        ]);
        words[14..].copy_from_slice(&self.label.words);
        for (to, word) in cell.request.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// Reads a request once, whatever the bits; `None` for an unknown op.
    pub fn decode(cell: &Cell) -> Option<Request> {
        let words: [u64; REQUEST_WORDS] = std::array::from_fn(|at| cell.request[at].load(Ordering::Relaxed));
        let (op, flags) = low_high(words[0]);
        let (thread, site) = low_high(words[2]);
        let (block_threads, registers) = low_high(words[8]);
        let (shared_bytes, priority) = low_high(words[9]);
        let (need_flags, len) = low_high(words[12]);
        Some(Request {
            op: Op::from_u32(op)?,
            flags,
            task: words[1],
            thread,
            site,
            gpus: words[3],
            bytes: words[4],
            need: Need {
                peak_bytes: words[5],
                mapped_bytes: words[6],
                grid_blocks: words[7],
                block_threads,
                registers,
                shared_bytes,
                heap_bytes: words[10],
                flags: need_flags,
                priority,
                deadline_ns: words[11],
            },
            first: words[13] as u32,
            label: Text {
                words: std::array::from_fn(|at| words[14 + at]),
                len: len.min(TEXT_BYTES as u32),
            },
        })
    }
}
