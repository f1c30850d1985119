//! Asking a holder who is left.

use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt;

use super::connect::find;
use super::packet::{receive, send};
use super::wire::{FromHolder, ToHolder};

/// Who is left of the programs that an `mgbd` served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderReport {
    /// Process ids of the programs.
    pub pids: Vec<u32>,
    /// Whether MPS runs for them.
    pub mps: bool,
}

/// Asks the holder of the `mgbd` at `socket`. `None`: there is none of this user's that it can ask.
pub fn report(socket: &Path) -> Option<HolderReport> {
    let line = find(socket).ok()??;
    sockopt::set_socket_timeout(&line, sockopt::Timeout::Recv, Some(Duration::from_secs(10))).ok()?;
    send(&line, &ToHolder::Who, &[]).ok()?;
    loop {
        if let FromHolder::Report { pids, mps } = receive(&line).ok()?.message {
            return Some(HolderReport { pids, mps });
        }
    }
}
