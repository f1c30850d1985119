//! Connecting to the holder.

use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use crate::folders::Private;
use crate::kinship;

use super::packet;

/// Where the holder listens, in the private folder.
pub const SOCKET: &str = "holder";

/// A connection to the holder of the `mgbd` at this socket; `None`: there is none.
///
/// # Errors
/// When the private folder is not this user's alone, or who listens there is another one than this process.
pub fn find(mgbd: &Path) -> std::io::Result<Option<OwnedFd>> {
    let private = match Private::find(mgbd) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        private => private?,
    };
    let line = packet::line()?;
    match rustix::net::connect(&line, &SocketAddrUnix::new(private.path(SOCKET))?) {
        Ok(()) => {}
        // What a killed one left.
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    match kinship::check(&line) {
        // It was about to end.
        Err(kinship::Stranger::Gone) => Ok(None),
        Err(why) => {
            let why = format!("who listens as the holder is none of ours: {why}");
            Err(Error::new(ErrorKind::PermissionDenied, why))
        }
        Ok(_) => Ok(Some(line)),
    }
}
