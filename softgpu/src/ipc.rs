//! Files in memory that processes share, and the handles by which they find them.
//!
//! A handle names an open file of its owner, which others open through the owner's `/proc` entry: nothing is
//! left behind when processes end, however they end, and other users may not open it.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use crate::error::{Error, Result, say_once};

/// What the handles of memory and of events begin with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    magic: [u8; 8],
    pid: u32,
    fd: i32,
    inode: u64,
}

impl Header {
    /// Names a file of this process, for others to open while it stays open here under this number.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM`.
    pub fn new(magic: [u8; 8], file: &File, fd: i32) -> Result<Header> {
        Ok(Header {
            magic,
            pid: std::process::id(),
            fd,
            inode: file.metadata().map_err(|_| Error::OPERATING_SYSTEM)?.ino(),
        })
    }

    /// Names a file by its own descriptor.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM`.
    pub fn of(magic: [u8; 8], file: &File) -> Result<Header> {
        Header::new(magic, file, file.as_raw_fd())
    }

    /// Checks that it is a handle of this kind, of another process.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for another kind, `INVALID_CONTEXT` for one of this process.
    pub fn check(&self, magic: [u8; 8]) -> Result {
        if self.magic != magic {
            return Err(Error::INVALID_HANDLE);
        }
        if self.pid == std::process::id() {
            return Err(Error::INVALID_CONTEXT);
        }
        Ok(())
    }

    /// Opens the file, which has at least this length.
    ///
    /// # Errors
    /// `INVALID_HANDLE` where the owner is gone or has closed it.
    pub fn open(&self, length: u64) -> Result<File> {
        let path = format!("/proc/{}/fd/{}", self.pid, self.fd);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| {
            say_once(&format!(
                "failed to open what process {} shares ({path}): {error}",
                self.pid
            ));
            Error::INVALID_HANDLE
        })?;
        let metadata = file.metadata().map_err(|_| Error::OPERATING_SYSTEM)?;
        // The number may be another file's by now.
        if metadata.ino() != self.inode || metadata.len() < length {
            return Err(Error::INVALID_HANDLE);
        }
        Ok(file)
    }
}
