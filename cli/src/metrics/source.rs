//! Where metrics come from: mgbd's view, read once for all who ask at about the same time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mgb_probe::view::NodeView;
use parking_lot::Mutex;

use super::node;
use crate::look::look;

/// For how long what was read is told to others: mgbd takes part in each look, and programs go before.
const CACHE_TIMEOUT: Duration = Duration::from_secs(1);

/// What was read last.
struct CachedView {
    at: Instant,
    /// What it was; what kept it from being read.
    view: Result<Arc<NodeView>, String>,
}

/// The mgbd of a socket. It is connected to for each look alone: it samples the node far more often while
/// somebody watches.
pub(super) struct MetricsSource {
    socket: PathBuf,
    cached: Mutex<Option<CachedView>>,
}

impl MetricsSource {
    /// The mgbd of this socket, whichever that is at the time.
    pub(super) fn new(socket: PathBuf) -> MetricsSource {
        MetricsSource {
            socket,
            cached: Mutex::new(None),
        }
    }

    /// The node as it was a moment ago, or why that is not known. Whoever comes while it is read waits for
    /// that.
    pub(super) fn view(&self) -> Result<Arc<NodeView>, String> {
        let mut cached = self.cached.lock();
        let fresh = cached.take_if(|cached| cached.at.elapsed() < CACHE_TIMEOUT);
        let now = fresh.unwrap_or_else(|| CachedView {
            at: Instant::now(),
            view: look(&self.socket)
                .map(Arc::new)
                .map_err(|error| format!("{error:#}")),
        });
        cached.insert(now).view.clone()
    }

    /// The metrics as text; without mgbd they say that it does not answer.
    ///
    /// # Errors
    /// They cannot be put into the format.
    pub(super) fn text(&self) -> Result<String> {
        let view = self.view().ok();
        let families = node::families(view.as_deref());
        families.text().context("failed to make the text of the metrics")
    }
}
