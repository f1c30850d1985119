//! What outlives this `mgbd`: the holder, the journal, and what its predecessor left.

pub(crate) mod backlog;
pub(crate) mod book;
#[allow(
    clippy::disallowed_methods,
    reason = "its own folder and program, as it starts a holder"
)]
pub(crate) mod holder;
pub(crate) mod open_holder;
pub(crate) mod predecessor;
