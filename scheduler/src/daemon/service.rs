//! What systemd is told of `mgbd`, where it has started it: that it is ready, lives and stops. Elsewhere
//! nobody listens, and nothing is said.
//!
//! systemd that does not read keeps nobody waiting: what it has no room for is said again if it has to know
//! it, and is lost otherwise.

use std::io::Error;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use mgb_interface::SYSTEMD_VARIABLES;
use sd_notify::NotifyState;

/// How often to say again what systemd had no room for.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The service, as systemd sees it.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// How often it has to say that it lives.
    every: Option<Duration>,
    due: Duration,
    /// That it is ready, where systemd had no room for that, and when to say it again.
    untold: Option<(String, Duration)>,
    /// The log has told that systemd does not hear.
    is_told: bool,
}

impl Service {
    /// It serves from now on.
    pub(crate) fn is_ready(&mut self, now: Duration, status: &str) {
        // Twice as often as it must.
        self.every = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        self.due = now;
        let text = text(&[NotifyState::Ready, NotifyState::Status(status)]);
        if !self.say(&text) {
            self.untold = Some((text, now + RETRY_INTERVAL));
        }
    }

    /// When it has something to say.
    pub(crate) fn interval(&self, now: Duration) -> Option<Duration> {
        let lives = self.every.map(|_| self.due);
        let again = self.untold.as_ref().map(|(_, due)| *due);
        let next = lives.into_iter().chain(again).min()?;
        Some(next.saturating_sub(now))
    }

    /// Says that it is ready, where that was not heard, and that it lives, if it is time.
    pub(crate) fn lives(&mut self, now: Duration) {
        if let Some((text, _)) = self.untold.take_if(|(_, due)| now >= *due)
            && !self.say(&text)
        {
            self.untold = Some((text, now + RETRY_INTERVAL));
        }
        if let Some(every) = self.every
            && now >= self.due
        {
            self.due = now + every;
            self.say(&text(&[NotifyState::Watchdog]));
        }
    }

    /// Says that the service stops.
    pub(crate) fn stops(&mut self) {
        self.say(&text(&[NotifyState::Stopping]));
    }

    /// Says something to systemd. False: it has no room for that now.
    fn say(&mut self, text: &str) -> bool {
        let Err(error) = send(text) else {
            self.is_told = false;
            return true;
        };
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!(%error, "systemd was not told");
        }
        error.kind() != std::io::ErrorKind::WouldBlock
    }
}

fn text(states: &[NotifyState<'_>]) -> String {
    states.iter().map(|state| format!("{state}\n")).collect()
}

/// As sd_notify(3) does, without waiting for room.
fn send(text: &str) -> Result<(), Error> {
    let Some(path) = std::env::var_os(SYSTEMD_VARIABLES[0]).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match path.as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(&path)?,
    }
    socket.send(text.as_bytes()).map(drop)
}
