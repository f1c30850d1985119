//! Threads for what may hang: they keep nothing of the loop waiting.

pub(crate) mod apart;
pub(crate) mod pool;
#[allow(
    clippy::disallowed_methods,
    reason = "a thread, whose processes share no file of a client's"
)]
pub(crate) mod spawner;
