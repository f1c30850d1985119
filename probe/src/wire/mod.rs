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

mod burst_words;
mod cell;
mod channel;
mod joined;
pub mod offer;
mod opening;
pub mod order;
mod pace;
mod reply;
mod request;
pub mod state;
mod text;
mod words;

pub use burst_words::BurstWords;
pub use cell::Cell;
pub use channel::{CELLS, Channel, GpuTime, GpuWords, LEASES, MAX_GPUS, PublishedWords};
pub use joined::JoinedMps;
pub use opening::{
    CAP_OBSERVER, CHANGES_CLASS, CHANNEL_BYTES, EXPECTS, KEEP, MAGIC, MAX_ANSWER, MOST_KEPT, OLDEST, Opening,
    SECTION, VERSION, WITHDRAWS,
};
pub use order::{AGENT, EndsFor, Order, OrderWords};
pub use pace::PaceWords;
pub use reply::Reply;
pub use request::{
    ELSEWHERE, FIRST, MAKES_CONTEXT, NUMBERED, OF_JOB, Op, PROCESS_DEADLINE, Request, STARTS, WHOLE_JOB,
    WHOLE_PROCESS,
};
pub use state::{ANSWERED, ASLEEP, IDLE, POSTED};
pub use text::{TEXT_BYTES, Text};

const _: () = assert!(MAX_GPUS == crate::numbering::MAX_GPUS);

#[cfg(all(test, not(loom)))]
mod tests;
