//! The channel: what lies in the memory that a client shares with `mgbd`.
//!
//! A client makes a `memfd`, seals it against shrinking, growing and further
//! seals, and sends it to `mgbd` once, beside [`Opening`]. From then on both
//! speak through it: the client fills a [`Cell`], sets the cell's bit in
//! [`Channel::posted`] and rings an eventfd; `mgbd` answers in the cell and
//! wakes its futex.
//!
//! Everything is made of atomics, so a client that scribbles while `mgbd` reads
//! can confuse itself only: there is no data race, and [`Request::decode`]
//! takes any bits. `mgbd` believes nothing it reads here without checking it.
//!
//! Changing the layout or the meaning of anything here changes [`VERSION`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::need::Need;

/// Version of the channel, the handshake and the node view together.
pub const VERSION: u32 = 1;
/// First bytes of [`Opening`] and [`Channel`]: "MGBchan1" in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MGBchan1");
/// Calls a client can have under way at once.
pub const CELLS: usize = 64;
/// GPUs a node can have: a set of them fits a word.
pub const MAX_GPUS: usize = 64;
/// Size of the memfd.
pub const CHANNEL_BYTES: usize = 32 << 10;
/// Longest handshake answer, in bytes.
pub const MAX_ANSWER: usize = 128 << 10;
/// Longest label of a task and text of a refusal, in bytes.
pub const TEXT_BYTES: usize = 64;

const TEXT_WORDS: usize = TEXT_BYTES / 8;
const REQUEST_WORDS: usize = 14 + TEXT_WORDS;
const REPLY_WORDS: usize = 5 + TEXT_WORDS;

/// A client's first and only message on the socket, with two descriptors: the
/// memfd and the eventfd, in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`] of the client.
    pub version: u32,
    /// [`CHANNEL_BYTES`] of the client.
    pub channel_bytes: u32,
    /// What the client can do; `CAP_*`.
    pub caps: u64,
}

/// The client only looks (`mgb status`): it never begins a task.
pub const CAP_OBSERVER: u64 = 1;

impl Opening {
    /// Bytes on the socket.
    pub const BYTES: usize = 24;

    /// The message of this version.
    pub fn new(caps: u64) -> Opening {
        Opening {
            magic: MAGIC,
            version: VERSION,
            channel_bytes: CHANNEL_BYTES as u32,
            caps,
        }
    }

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.magic.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.channel_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.caps.to_le_bytes());
        bytes
    }

    /// The message in `bytes`, if they are one of any version: later versions
    /// may be longer.
    pub fn decode(bytes: &[u8]) -> Option<Opening> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (magic, second, caps) = (word(0)?, word(8)?, word(16)?);
        (magic == MAGIC).then_some(Opening {
            magic,
            version: second as u32,
            channel_bytes: (second >> 32) as u32,
            caps,
        })
    }
}

/// The shared memory as a whole. All zeros is a valid one.
#[repr(C, align(64))]
pub struct Channel {
    /// [`MAGIC`], for people who look at a dump.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// Bit n: cell n holds a request that `mgbd` has not taken yet.
    pub posted: AtomicU64,
    reserved: [AtomicU64; 5],
    /// What the client says about itself as it runs.
    pub published: PublishedWords,
    /// The calls.
    pub cells: [Cell; CELLS],
}

/// What a client publishes, by GPU index. See [`crate::Published`].
#[repr(C, align(64))]
pub struct PublishedWords {
    /// Changes with every change of `resident`.
    pub changes: AtomicU64,
    /// Bit n: the process has a context on GPU n.
    pub contexts: AtomicU64,
    reserved: [AtomicU64; 6],
    /// Launches not finished yet.
    pub launches: [AtomicU32; MAX_GPUS],
    /// Bytes mapped under the process's reservations, contexts not counted.
    pub resident: [AtomicU64; MAX_GPUS],
}

/// One call. Its owner is the client, except while `mgbd` has taken the
/// request; `mgbd` keeps its own note of that and believes no state here.
#[repr(C, align(64))]
pub struct Cell {
    /// [`IDLE`], [`POSTED`] or [`ANSWERED`]; the futex the client waits on.
    pub state: AtomicU32,
    reserved: AtomicU32,
    /// Counts the calls made through this cell; for traces.
    pub seq: AtomicU64,
    /// See [`Request`].
    pub request: [AtomicU64; REQUEST_WORDS],
    /// See [`Reply`].
    pub reply: [AtomicU64; REPLY_WORDS],
}

/// [`Cell::state`]: no call.
pub const IDLE: u32 = 0;
/// [`Cell::state`]: the request is complete.
pub const POSTED: u32 = 1;
/// [`Cell::state`]: the reply is complete.
pub const ANSWERED: u32 = 2;

const _: () = {
    assert!(size_of::<Cell>() == 320);
    assert!(size_of::<PublishedWords>() == 64 + 256 + 512);
    assert!(size_of::<Channel>() == 64 + 832 + CELLS * 320);
    assert!(size_of::<Channel>() <= CHANNEL_BYTES);
    assert!(std::mem::offset_of!(Channel, published) == 64);
    assert!(std::mem::offset_of!(Channel, cells) == 896);
};

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
}

impl Op {
    fn from_u32(raw: u32) -> Option<Op> {
        Some(match raw {
            1 => Op::Begin,
            2 => Op::Grow,
            3 => Op::Swapped,
            4 => Op::GiveBack,
            5 => Op::End,
            _ => return None,
        })
    }
}

/// [`Request::flags`]: the task is the whole process; its room stays until the
/// process dies, whatever becomes of the channel.
pub const WHOLE_PROCESS: u32 = 1;

/// A short text in a fixed space, cut at a character boundary.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Text {
    words: [u64; TEXT_WORDS],
    len: u32,
}

impl Text {
    /// As much of `text` as fits.
    pub fn new(text: &str) -> Text {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut words = [0; TEXT_WORDS];
        for (at, byte) in text.as_bytes()[..end].iter().enumerate() {
            words[at / 8] |= u64::from(*byte) << (8 * (at % 8));
        }
        Text {
            words,
            len: end as u32,
        }
    }

    /// The text; bytes that are none, and control characters, show as `?`.
    pub fn to_text(&self) -> String {
        let bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take((self.len as usize).min(TEXT_BYTES))
            .collect();
        String::from_utf8_lossy(&bytes)
            .chars()
            .map(|c| {
                if c.is_control() || c == char::REPLACEMENT_CHARACTER {
                    '?'
                } else {
                    c
                }
            })
            .collect()
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_text().fmt(f)
    }
}

/// A call's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub op: Op,
    /// [`WHOLE_PROCESS`].
    pub flags: u32,
    /// The client's name for the task.
    pub task: u64,
    /// Thread that asks, and waits.
    pub thread: u32,
    /// Number of the task's site in its module, 0: none.
    pub site: u32,
    /// GPUs the task may be placed on, by index.
    pub gpus: u64,
    /// See [`Op`].
    pub bytes: u64,
    /// What a beginning task needs.
    pub need: Need,
    /// What people know the task by.
    pub label: Text,
}

fn low_high(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Request {
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
            0,
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
            label: Text {
                words: std::array::from_fn(|at| words[14 + at]),
                len: len.min(TEXT_BYTES as u32),
            },
        })
    }
}

/// A call's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `Begin` and `Grow`: the task may map `reserved` bytes in all on `gpu`.
    Granted {
        /// GPU index.
        gpu: u32,
        /// Bytes in all.
        reserved: u64,
    },
    /// `Grow`: swap the task's own memory out, then grow again for the whole.
    SwapOut {
        /// GPU index.
        gpu: u32,
    },
    /// `Begin` and `Grow`: swap the process's other tasks on `gpu` out, then
    /// ask the same again.
    SwapOthers {
        /// GPU index.
        gpu: u32,
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
    /// No GPU of the set is shared here.
    NoGpu,
    /// Everybody waits and nobody can be swapped out.
    Deadlock,
    /// The request makes no sense; the text says why.
    Bad(Text),
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
            Reply::Done => words[0] = 4,
            Reply::NeverFits { wanted, largest } => {
                words[..3].copy_from_slice(&[5, wanted, largest]);
            }
            Reply::NoGpu => words[0] = 6,
            Reply::Deadlock => words[0] = 7,
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
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell() -> Cell {
        Cell {
            state: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            seq: AtomicU64::new(0),
            request: [const { AtomicU64::new(0) }; REQUEST_WORDS],
            reply: [const { AtomicU64::new(0) }; REPLY_WORDS],
        }
    }

    #[test]
    fn a_request_comes_back_whole() {
        let request = Request {
            op: Op::Begin,
            flags: WHOLE_PROCESS,
            task: 7,
            thread: 8,
            site: 9,
            gpus: u64::MAX,
            bytes: 10,
            need: Need {
                peak_bytes: 11,
                mapped_bytes: 12,
                grid_blocks: 13,
                block_threads: 14,
                registers: 15,
                shared_bytes: 16,
                heap_bytes: 17,
                flags: 18,
                priority: 19,
                deadline_ns: 20,
            },
            label: Text::new("va.cu:main"),
        };
        let cell = cell();
        request.encode(&cell);
        assert_eq!(Request::decode(&cell), Some(request));
        assert_eq!(Request::decode(&cell).unwrap().label.to_text(), "va.cu:main");
    }

    #[test]
    fn replies_come_back_whole() {
        for reply in [
            Reply::Granted {
                gpu: 3,
                reserved: u64::MAX,
            },
            Reply::SwapOut { gpu: 1 },
            Reply::SwapOthers { gpu: 63 },
            Reply::Done,
            Reply::NeverFits {
                wanted: 2,
                largest: 1,
            },
            Reply::NoGpu,
            Reply::Deadlock,
            Reply::Bad(Text::new("task 4 is not known")),
        ] {
            let cell = cell();
            reply.encode(&cell);
            assert_eq!(Reply::decode(&cell), Some(reply));
        }
    }

    #[test]
    fn openings_of_other_versions_are_read() {
        let mut opening = Opening::new(CAP_OBSERVER);
        opening.version = 99;
        assert_eq!(Opening::decode(&opening.encode()), Some(opening));
        assert_eq!(Opening::decode(&[0; 24]), None);
        assert_eq!(Opening::decode(&opening.encode()[..23]), None);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let text = Text::new(&"ä".repeat(40));
        assert_eq!(text.to_text(), "ä".repeat(32));
        let text = Text::new(&format!("x{}", "ä".repeat(40)));
        assert_eq!(text.to_text(), format!("x{}", "ä".repeat(31)));
        assert_eq!(Text::new("a\nb").to_text(), "a?b");
    }

    proptest! {
        #[test]
        fn any_bits_decode_without_panic(words in proptest::collection::vec(any::<u64>(), REQUEST_WORDS)) {
            let cell = cell();
            for (to, word) in cell.request.iter().zip(&words) {
                to.store(*word, Ordering::Relaxed);
            }
            for (to, word) in cell.reply.iter().zip(&words) {
                to.store(*word, Ordering::Relaxed);
            }
            if let Some(request) = Request::decode(&cell) {
                let _ = request.label.to_text();
            }
            let _ = Reply::decode(&cell);
        }
    }
}
