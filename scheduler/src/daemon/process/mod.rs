//! What the kernel says of clients' processes.

#[allow(
    clippy::disallowed_methods,
    reason = "the kernel's own words on processes; `program_of` is for lookups"
)]
pub(crate) mod family;
#[allow(clippy::disallowed_methods, reason = "in threads of its own")]
pub(crate) mod marks;
