//! Finds the holder, or starts one.

use crate::daemon::accept::listener::{ListenError, Listener};
use crate::daemon::config::Config;
use crate::daemon::error::DaemonError;
use crate::daemon::restart::holder::{HolderProcess, Mgbd, MpsState, NoHolder};
use crate::daemon::restart::predecessor::Predecessor;
use crate::node::NodeDriver;

/// Finds or starts the holder.
///
/// # Errors
/// When another `mgbd` lives that has one.
pub(crate) fn open_holder(
    config: &Config,
    node: &dyn NodeDriver,
    listener: &Listener,
) -> Result<(Option<HolderProcess>, MpsState, Predecessor), DaemonError> {
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
    let opened = HolderProcess::open(Mgbd {
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
