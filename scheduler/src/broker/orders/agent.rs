//! A client's agent, as the broker knows it, and the orders that it is given.

use std::time::Duration;

use mgb_probe::wire::Order;

use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// An order that a client was given and has not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenOrder {
    /// The order's number.
    pub(super) number: u32,
    /// The GPU that memory is to leave.
    pub(super) gpu: usize,
    /// Bytes that are to leave the GPU.
    pub(super) bytes: u64,
    /// Bytes of the client that have left the GPU since.
    pub(super) left: u64,
    /// When the order was given.
    pub(super) since: Duration,
    /// Work under way may finish first: the time says nothing of the copies.
    pub(super) waits_for_work: bool,
    /// A task is to go to another GPU.
    pub(super) moves: bool,
}

/// An order to swap out that answered a request of a client, which has not asked again.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwapOrder {
    /// The thread whose request was answered with the order.
    pub(super) thread: u32,
    /// The GPU on which the client is to make room.
    pub(super) gpu: usize,
    /// Bytes that it had reserved there.
    pub(super) reserved: u64,
}

/// A client's agent, as the broker knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct Agent {
    pub(super) open: Option<OpenOrder>,
    pub(super) swap: Option<SwapOrder>,
    /// GPUs on which an order to swap freed nothing.
    pub(super) cannot_swap: GpuSet,
    /// The number of the last order.
    pub(super) last: u32,
    /// No order is given before then.
    pub(super) not_before: Duration,
    /// Orders in a row by which nothing came free.
    pub(super) failures: u32,
    /// The last order was not answered.
    pub(super) is_deaf: bool,
    /// How often memory was evicted.
    pub(super) evictions: u32,
    /// When memory last came back.
    pub(super) back: Duration,
}

impl Agent {
    /// Whether the client has no order to carry out.
    pub(super) fn is_free(&self) -> bool {
        self.open.is_none() && self.swap.is_none()
    }

    /// How often memory was evicted.
    pub(in crate::broker) fn evictions(&self) -> u32 {
        self.evictions
    }

    /// When memory last came back.
    pub(in crate::broker) fn back(&self) -> Duration {
        self.back
    }

    /// The number of the client's next order.
    pub(super) fn next_number(&self) -> u32 {
        self.last.wrapping_add(1).max(1)
    }
}

/// An order to be carried to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTo {
    /// The client that the order is for.
    pub client: ClientId,
    /// The order's number.
    pub number: u32,
    /// What the client is to do.
    pub order: Order,
}
