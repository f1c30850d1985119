//! What the loop is set up with: the holder, descriptors, a clock.

use std::time::Duration;

use super::config::Config;
use super::error::DaemonError;
use super::holder::{Holder, Mgbd, MpsState, NoHolder};
use super::listener::{ListenError, Listener};
use super::predecessor::Predecessor;
use crate::node::Node;

/// Finds or starts the holder.
///
/// # Errors
/// When another `mgbd` lives that has one.
pub(super) fn open_holder(
    config: &Config,
    node: &dyn Node,
    listener: &Listener,
) -> Result<(Option<Holder>, MpsState, Predecessor), DaemonError> {
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
        return Ok((None, why, Predecessor::default()));
    };
    let inherited = config.holder_line.as_ref().map(|line| line.try_clone());
    let inherited =
        inherited.and_then(|line| line.inspect_err(|error| tracing::warn!(%error, "no line")).ok());
    let opened = Holder::open(Mgbd {
        program: program.clone(),
        mps_control: config.mps_control.clone(),
        socket: listener.path().to_owned(),
        wants_mps: off.is_none(),
        users: config.users.are_several(),
        again: config.again.clone(),
        inherited,
    });
    let (holder, mps, left) = opened.map_err(|why| match why {
        // The lock was to be had, since its file was removed.
        NoHolder::Busy(pid) => DaemonError::from(ListenError::Running {
            path: listener.path().to_owned(),
            pid: pid.to_string(),
        }),
        NoHolder::Failed(why) => DaemonError::Threads(why),
    })?;
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
    Ok((Some(holder), mps, left))
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
