//! Why `mgbd` ends otherwise than it should.

use crate::daemon::accept::listener::ListenError;
use crate::quota::file::QuotasError;

/// Why `mgbd` ended otherwise than it should.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its user has no number.
    #[error(
        "this user has no number in this user namespace, so that programs of any other one look like its own; \
         give it one (unshare --map-current-user), or serve all"
    )]
    NoUser,
    /// It could not listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A system call failed.
    #[error("failed to {0}: {1}")]
    System(&'static str, rustix::io::Errno),
    /// What may hang could not be set up beside the loop.
    #[error("failed to start the thread for lookups: {0}; mgbd needs Linux 5.9")]
    Lookups(std::io::Error),
    /// What is to end with `mgbd` alone, or to start others, has no thread.
    #[error("failed to start the threads for the holder: {0}; mgbd needs Linux 5.9")]
    Threads(String),
    /// The kernel keeps no list of system calls.
    #[error("failed to confine mgbd to the system calls that it needs: {0}; --no-seccomp does without")]
    Seccomp(seccompiler::Error),
    /// The quotas make no sense.
    #[error(transparent)]
    Quotas(#[from] QuotasError),
    /// The node view could not be made.
    #[error("failed to make the node view: {0}; is /dev/shm there and writable?")]
    View(String),
}
