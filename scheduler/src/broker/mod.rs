//! The broker: takes the clients' requests, keeps the queue, and answers.
//!
//! It has no clock, no driver and no channel: whoever runs it says what time it
//! is, what the driver shows ([`Snapshot`]), and carries the answers. `mgbd` does,
//! and so do the tests.
//!
//! It is made of parts that own their state: `books` (rules, ledger, clients, what people want), `queue` (requests that
//! wait), `reserve` (room kept for some of them), `turns` (at the driver), `accounts` (users' limits and what they
//! have), `jobs` (GPUs of jobs), `orders` (to clients), and `history` (what was seen before). A `round` bundles what
//! is known while the queue is gone through, and `dispatch` is the [`Broker`] itself, which calls the parts in order.

mod accounts;
mod answer;
mod books;
mod clients;
mod control;
mod dispatch;
mod history;
mod jobs;
mod orders;
mod program;
mod queue;
mod reserve;
mod round;
mod rules;
mod snapshot;
mod turns;

pub use accounts::{Late, Times};
pub use answer::Answer;
pub use clients::JobOfUser;
pub use dispatch::Broker;
pub use history::Remembered;
pub use orders::OrderTo;
pub use program::ProgramId;
pub use rules::{MPS_CLIENTS, PASSED_TIMEOUT, ServingRules};
pub use snapshot::{Activity, Snapshot, WHOLE};

#[cfg(test)]
mod tests;
