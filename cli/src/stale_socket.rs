//! Sockets that processes have left behind.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Removes the socket of one that has ended without doing so. What is not a socket stays, and so does one
/// where somebody answers.
///
/// # Errors
/// Somebody answers there, or the system's.
pub fn clear_stale(path: &Path) -> io::Result<()> {
    let is_socket = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type().is_socket(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_socket {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "it is there, and no socket",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another process answers there",
        )),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_sockets_that_nobody_answers_at_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        clear_stale(&path).expect("there is none");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(clear_stale(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        clear_stale(&path).expect("nobody answers");
        assert!(!path.exists());
        fs::write(&path, "what somebody needs").unwrap();
        assert_eq!(clear_stale(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(path.exists());
    }
}
