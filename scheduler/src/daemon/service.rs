//! What systemd is told of `mgbd`, where it has started it: that it is ready, lives and stops. Elsewhere
//! nobody listens, and nothing is said.

use std::time::Duration;

use sd_notify::NotifyState;

/// The settings by which systemd speaks to a service: not for processes that the service starts.
pub const OWN: [&str; 5] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
];

/// The service, as systemd sees it.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// How often it has to say that it lives.
    every: Option<Duration>,
    due: Duration,
}

impl Service {
    /// It serves from now on.
    pub(super) fn is_ready(&mut self, now: Duration, status: &str) {
        // Twice as often as it must.
        self.every = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        self.due = now;
        say(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// When it has to say that it lives.
    pub(super) fn interval(&self, now: Duration) -> Option<Duration> {
        self.every.map(|_| self.due.saturating_sub(now))
    }

    /// Says that it lives if it is time.
    pub(super) fn lives(&mut self, now: Duration) {
        if let Some(every) = self.every
            && now >= self.due
        {
            self.due = now + every;
            say(&[NotifyState::Watchdog]);
        }
    }

    /// It ends.
    pub(super) fn stops(&self) {
        say(&[NotifyState::Stopping]);
    }
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd was not told");
    }
}
