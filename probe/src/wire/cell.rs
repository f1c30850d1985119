//! A cell: one call at a time.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::text::TEXT_WORDS;
use crate::sync;

pub(super) const REQUEST_WORDS: usize = 14 + TEXT_WORDS;
pub(super) const REPLY_WORDS: usize = 5 + TEXT_WORDS;

/// One call. Its owner is the client, except while `mgbd` has taken the
/// request; `mgbd` keeps its own note of that and believes no state here.
#[repr(C, align(64))]
pub struct Cell {
    /// The state of the call, a value of [`super::state`].
    pub state: sync::AtomicU32,
    pub(super) reserved: AtomicU32,
    /// Counts the calls made through this cell; for traces.
    pub seq: AtomicU64,
    /// The words of a [`super::Request`].
    pub request: [AtomicU64; REQUEST_WORDS],
    /// The words of a [`super::Reply`].
    pub reply: [AtomicU64; REPLY_WORDS],
}
