//! What the loop is set up with.

use std::os::fd::OwnedFd;

use mgb_probe::{Hello, MpsClient, wire};
use rustix::event::epoll::EventFlags;

use crate::broker::ServingRules;
use crate::daemon::config::Config;
use crate::daemon::error::DaemonError;
use crate::daemon::lookups::Lookups;
use crate::daemon::poll::Poll;
use crate::daemon::restart::holder::{HolderProcess, MpsState};
use crate::daemon::source::EventSource;
use crate::daemon::view::View;
use crate::eviction::Speed;
use crate::node::NodeDriver;

/// Watches what there is before the first client.
pub(crate) fn watch_all(
    config: &Config,
    listener: &OwnedFd,
    lookups: &Lookups,
    holder: Option<&HolderProcess>,
    stop: OwnedFd,
) -> Result<Poll, DaemonError> {
    let system = |what| move |error| DaemonError::System(what, error);
    let poll = Poll::new(stop).map_err(system("make an epoll"))?;
    let sources = [
        (Some(listener), EventSource::Listener, "watch the socket"),
        (config.reload.as_deref(), EventSource::Reload, "watch for SIGHUP"),
        (
            Some(lookups.rings()),
            EventSource::Lookups,
            "watch for what is looked up",
        ),
        (
            holder.and_then(HolderProcess::line),
            EventSource::Holder,
            "watch the holder",
        ),
    ];
    for (file, source, what) in sources {
        if let Some(file) = file {
            poll.watch(file, source, EventFlags::IN).map_err(system(what))?;
        }
    }
    Ok(poll)
}

/// What each client is told.
pub(crate) fn hello(config: &Config, node: &dyn NodeDriver, mps: MpsState, view: &View) -> Hello {
    Hello {
        version: wire::VERSION,
        policy: config.policy.to_string(),
        queue: config.queue.to_string(),
        mps_pipe: mps.pipe.map(|pipe| pipe.display().to_string()),
        mps_note: mps.note,
        mps_client: MpsClient::default(),
        class: None,
        gpus: node.gpus().to_vec(),
        mgbd_pid: std::process::id(),
        client_pid: None,
        exchanged: None,
        numbering: Vec::new(),
        usable: None,
        view: Some(view.whole().to_owned()),
    }
}

/// By which rules the broker grants.
pub(crate) fn rules(config: &Config) -> ServingRules {
    ServingRules {
        patience: config.patience,
        queue: config.queue,
        evicts: config.evicts,
        moves: config.moves,
        shuffles: config.shuffles,
        swap_memory: config.swap_memory,
        copy_speed: Speed::expected(std::thread::available_parallelism().map_or(1, usize::from)),
        drains_failing: config.drains_failing,
        ..ServingRules::new(config.policy)
    }
}

/// As many descriptors as may be open.
pub(crate) fn raise_descriptor_limit() -> usize {
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
