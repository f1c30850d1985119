//! Who connects: the socket, the handshake, and whose a connection is.

pub(crate) mod arrivals;
pub(crate) mod connection;
pub(crate) mod greet;
#[allow(clippy::disallowed_methods, reason = "the kernel's own words on processes")]
pub(crate) mod identity;
#[allow(clippy::disallowed_methods, reason = "its own folder, as it starts and ends")]
pub(crate) mod listener;
#[allow(
    clippy::disallowed_methods,
    reason = "the administrator's file, as it is and as it changes"
)]
pub(crate) mod subordinate;
