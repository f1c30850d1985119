//! What the GPUs and the processes on them do, sampled.

pub(crate) mod activity;
pub(crate) mod descriptor_count;
pub(crate) mod ending;
pub(crate) mod foreign;
#[allow(clippy::disallowed_methods, reason = "a thread that asks the driver")]
pub(crate) mod health;
#[allow(clippy::disallowed_methods, reason = "the kernel's own words on memory")]
pub(crate) mod host_memory;
pub(crate) mod late_processes;
pub(crate) mod memory_monitor;
pub(crate) mod overhead;
pub(crate) mod reclaim;
