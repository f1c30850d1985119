//! How much is done for whom: a limit is a few lines of configuration of one of three mechanisms.
//!
//! | module | limits |
//! |--------|--------|
//! | `limiter` | how often, or how much at once, by key: tokens that come back with time or are given back |
//! | `duty_cycle` | the part of the loop's time that costly work takes |
//! | `pauses` | what is not heard until later |
//!
//! The limits themselves are here, so that they can be read side by side.

mod duty_cycle;
mod limiter;
mod pauses;

use std::time::Duration;

pub(crate) use duty_cycle::DutyCycle;
pub(crate) use limiter::{Limit, Limiter, Refill};
pub(crate) use pauses::Pauses;

/// How long connections wait that come too often, and the time from one to the next then. To take one costs 30 to
/// 100 us, and what it asks for and leaves several times that, which the clients wait for.
pub(crate) const CONNECT_INTERVAL: Duration = Duration::from_millis(4);
/// Connections that are taken: at once, after a while with fewer, a batch of programs that start together.
pub(crate) const CONNECTIONS: Limit = Limit {
    capacity: 256,
    refill: Refill::Each(CONNECT_INTERVAL),
    max_keys: 1,
};

/// How long a client's socket is not heard whose user's clients send lists of files too often.
pub(crate) const LIST_INTERVAL: Duration = Duration::from_millis(10);
/// Lists of files to be kept that a user's clients may send: each is looked at, passed on to the holder and its
/// predecessor closed, and one of 64 files costs as much as several grants. A client sends one for each context and
/// library that its program loads as it starts.
pub(crate) const FILE_LISTS: Limit = Limit {
    capacity: 128,
    refill: Refill::Each(LIST_INTERVAL),
    max_keys: 256,
};

/// Lines of the log of one kind that clients cause: who does wrong again and again must not fill a disk.
pub(crate) const LOG_LINES: Limit = Limit {
    capacity: 20,
    refill: Refill::Window(Duration::from_secs(10)),
    max_keys: 1,
};
/// The same for each user, so that nobody hides another's lines.
pub(crate) const USER_LOG_LINES: Limit = Limit {
    max_keys: 1 << 12,
    ..LOG_LINES
};

/// Requests of a user that may wait at once, though each client could post [`mgb_probe::wire::CELLS`]: each round of
/// decisions goes through all of them.
pub(crate) const WAITING_REQUESTS: Limit = Limit {
    capacity: 1 << 10,
    refill: Refill::Returned,
    max_keys: usize::MAX,
};
/// Requests that each client may have beside [`WAITING_REQUESTS`]: a program with a thread or two must not fail
/// because of others.
pub(crate) const MAX_FREE_REQUESTS: u32 = 2;

/// Whole rounds of the broker: fewer than one request in a hundred finds one under way. What only a whole round
/// finds is so late at most.
pub(crate) const WHOLE_ROUNDS: DutyCycle = DutyCycle::new(200, Duration::from_millis(50));
/// Writing the node view, which takes a millisecond where there are thousands of tasks.
pub(crate) const VIEW_WRITES: DutyCycle = DutyCycle::new(200, Duration::from_secs(1));
