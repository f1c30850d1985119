//! A client's agent, as the broker knows it, and the orders that it is given.

use std::time::Duration;

use mgb_probe::wire::Order;

use crate::client::ClientId;
use crate::eviction::Speed;

/// What is expected of a copy to the host and back before one was seen.
pub(super) const FIRST_SPEED: Speed = Speed { bytes_per_s: 8 << 30 };
/// An order that a client was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) number: u32,
    pub(super) gpu: usize,
    pub(super) bytes: u64,
    pub(super) since: Duration,
    /// Work under way may finish first: the time says nothing of the copies.
    pub(super) waits_for_work: bool,
    /// A task is to go to another GPU.
    pub(super) moves: bool,
}

/// A client's agent, as the broker knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agent {
    pub(super) given: Option<Given>,
    /// The number of the last order.
    pub(super) last: u32,
    /// No order before then.
    pub(super) not_before: Duration,
    /// Orders in a row by which nothing came free.
    pub(super) in_vain: u32,
    /// The last order was not answered.
    pub(super) is_deaf: bool,
    /// How often memory was evicted.
    pub(super) times: u32,
    /// When memory last came back.
    pub(super) back: Duration,
}

/// An order to be carried to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTo {
    /// The client.
    pub client: ClientId,
    /// The order's number.
    pub number: u32,
    /// What it is to do.
    pub order: Order,
}
