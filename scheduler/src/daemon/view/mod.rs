//! What is shown of the node: the views of its users, and when they are written.

mod fit;
#[allow(clippy::disallowed_methods, reason = "shared memory that is its own")]
pub(crate) mod node_view;
mod user_views;

use std::time::Duration;

use mgb_probe::view::NodeView;

use crate::daemon::client::clients::Clients;
use crate::daemon::clock::computed;
use crate::daemon::error::DaemonError;
use crate::daemon::limits::{DutyCycle, VIEW_WRITES};
use user_views::UserViews;

/// How often the node view is written while there are clients.
const VIEW_INTERVAL: Duration = Duration::from_millis(200);
/// The same after a change: writing it costs as much as several answers.
const CHANGES_INTERVAL: Duration = Duration::from_millis(20);
/// Between two samples while an observer is connected: only the driver shows what programs take.
const WATCHED_INTERVAL: Duration = Duration::from_millis(25);

/// The node view, of each user.
pub(crate) struct View {
    views: UserViews,
    /// When `mgbd` came up.
    start: Duration,
    /// When it was written last.
    written: Duration,
    writes: DutyCycle,
    /// What is shown is not what is.
    is_stale: bool,
}

impl View {
    /// For one user, or for `several`.
    pub(crate) fn new(several: bool, start: Duration) -> Result<View, DaemonError> {
        Ok(View {
            views: UserViews::new(several)?,
            start,
            written: Duration::ZERO,
            writes: VIEW_WRITES,
            is_stale: true,
        })
    }

    /// Something has changed that is shown.
    pub(crate) fn changed(&mut self) {
        self.is_stale = true;
    }

    /// Whether something has changed since it was written.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// How long until it is to be written next.
    pub(crate) fn due_in(&self, clients: &Clients, now: Duration) -> Option<Duration> {
        let after = if self.is_stale {
            CHANGES_INTERVAL
        } else if clients.is_empty() {
            return None;
        } else if clients.values().any(|client| client.observer) {
            WATCHED_INTERVAL
        } else {
            VIEW_INTERVAL
        };
        Some((self.written + after.max(self.writes.pause())).saturating_sub(now))
    }

    /// Writes the view of each user. `began`: when it was begun to be made, by [`computed`].
    pub(crate) fn write(&mut self, view: NodeView, began: Duration, now: Duration) {
        let uptime_ms = now.saturating_sub(self.start).as_millis() as u64;
        self.views.write(NodeView { uptime_ms, ..view }, now);
        self.written = now;
        self.writes.worked(computed().saturating_sub(began));
        self.is_stale = false;
    }

    /// The name of the view with everything.
    pub(crate) fn whole(&self) -> &str {
        self.views.whole()
    }

    /// The name of the view of an account's for this user to read, and whether it was made for that.
    pub(crate) fn of(&mut self, account: u32, uid: u32) -> Result<(String, bool), DaemonError> {
        let before = self.views.names();
        let name = self.views.of(account, uid)?.to_owned();
        Ok((name, self.views.names() != before))
    }

    /// The names of all views.
    pub(crate) fn names(&self) -> Vec<String> {
        self.views.names()
    }

    /// A client is gone, perhaps the last one of a user's.
    pub(crate) fn client_left(&mut self, now: Duration) {
        self.views.left(now);
        self.is_stale = true;
    }

    /// How long until the views of users who are gone are dropped.
    pub(crate) fn drops_in(&self, now: Duration) -> Option<Duration> {
        self.views.drop_in(now)
    }

    /// Drops the views of accounts and users but those that are here.
    pub(crate) fn keep(&mut self, is_here: impl Fn((u32, u32)) -> bool) {
        self.views.keep(is_here);
    }
}
