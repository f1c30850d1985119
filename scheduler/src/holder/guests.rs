//! Who connects to the holder, and has said nothing yet or only asks: an `mgbd` that takes over, `mgb stop`.
//! Only a process that may do all that the holder may is heard.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mgb_interface::folders::Private;
use mgb_interface::holder::packet::{bind, send};
use mgb_interface::holder::wire::{FromHolder, VERSION};
use mgb_interface::kinship;
use rustix::net::SocketFlags;

/// Connections to the holder that may be open at once before one is taken as `mgbd`.
const MAX_GUESTS: usize = 16;
/// How often the log tells of those who are turned away.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);

/// The socket, and who has connected to it.
pub(super) struct Guests {
    pub(super) listener: OwnedFd,
    path: PathBuf,
    pub(super) lines: Vec<OwnedFd>,
    /// When the log last told of one that was turned away, and how many there were since.
    told: Option<Instant>,
    untold: u32,
}

impl Guests {
    /// Listens in the private folder, in the place of what another holder has left. The caller has the lock.
    pub(super) fn listen(private: &Private) -> std::io::Result<Guests> {
        let path = private.path(mgb_interface::holder::SOCKET);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Guests {
            listener: bind(&path)?,
            path,
            lines: Vec::new(),
            told: None,
            untold: 0,
        })
    }

    /// Takes who has connected.
    pub(super) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(guest) = rustix::net::accept_with(&self.listener, flags) {
            match kinship::check(&guest) {
                Ok(_) if self.lines.len() < MAX_GUESTS => self.welcome(guest),
                Ok(_) => self.refuse(&guest, "there are as many guests as are heard at once"),
                Err(why) => self.refuse(&guest, &why.to_string()),
            }
        }
    }

    /// Greets one that may say what it wants.
    pub(super) fn welcome(&mut self, guest: OwnedFd) {
        let greeting = FromHolder::Greeting {
            version: VERSION,
            pid: std::process::id(),
        };
        if send(&guest, &greeting, &[]).is_ok() {
            self.lines.push(guest);
        }
    }

    fn refuse(&mut self, guest: &OwnedFd, why: &str) {
        self.untold = self.untold.saturating_add(1);
        let now = Instant::now();
        if self.told.is_none_or(|told| now >= told + REFUSAL_INTERVAL) {
            tracing::warn!(why, refused = self.untold, "turned away who is no mgbd of ours");
            self.told = Some(now);
            self.untold = 0;
        }
        let _ = send(guest, &FromHolder::Refused { why: why.to_owned() }, &[]);
    }

    /// Nobody comes any more.
    pub(super) fn close(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
