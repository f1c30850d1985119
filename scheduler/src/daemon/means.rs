//! What the loop is set up with: the holder, descriptors, a clock.

use std::time::Duration;

use super::config::Config;
use super::holder::{Holder, MpsState};
use super::left::Left;
use super::listener::Listener;
use crate::node::Node;

/// Finds or starts the holder.
pub(super) fn open_holder(
    config: &Config,
    node: &dyn Node,
    listener: &Listener,
) -> (Option<Holder>, MpsState, Left) {
    let off = if !config.mps {
        Some("switched off")
    } else if node.software() {
        Some("software GPUs need none")
    } else {
        None
    };
    let without = |note: &str| MpsState {
        pipe: None,
        note: Some(note.to_owned()),
    };
    let Some(program) = &config.holder else {
        let why = without(off.unwrap_or("no holder is to be started"));
        return (None, why, Left::default());
    };
    let (control, again) = (config.mps_control.clone(), config.again.clone());
    let (holder, mps, left) = Holder::open(
        program.clone(),
        control,
        listener.path(),
        off.is_none(),
        config.users.are_several(),
        again,
    );
    if let Some(why) = &mps.note {
        tracing::warn!(
            why,
            "going on without MPS: kernels of different programs take turns"
        );
    }
    let mps = match off {
        Some(off) => without(off),
        None => mps,
    };
    (Some(holder), mps, left)
}

/// How long this thread has computed: what other programs of the machine take of it meanwhile is not in it.
pub(super) fn computed() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A clock that all processes of this boot share.
pub(super) fn boot_clock() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// As many descriptors as may be open.
pub(super) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    usize::try_from(current.unwrap_or(u64::MAX)).unwrap_or(usize::MAX)
}
