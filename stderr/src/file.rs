//! Standard error as a file: whether it is one, can be written now, and takes bytes without blocking.

use std::time::Duration;

/// The descriptor of standard error.
const STDERR: libc::c_int = 2;
/// A pipe that can be written takes so many bytes without blocking (`PIPE_BUF`).
pub const PIECE: usize = 4096;

/// Whether the descriptor is what a program is started with. Where standard error was closed, the program's
/// next file has its number; most are marked to be closed at `exec`, as no standard error is.
pub fn is_standard_error() -> bool {
    // SAFETY: asks for a number's flags and touches no memory.
    let flags = unsafe { libc::fcntl(STDERR, libc::F_GETFD) };
    flags != -1 && flags & libc::FD_CLOEXEC == 0
}

/// Whether a write would not block.
pub enum Ready {
    /// It would not.
    Yes,
    /// It would, at this moment.
    NotYet,
    /// It would fail.
    Never,
}

/// Waits until a write would not block. By plain system calls here and below: the C library's functions are
/// cancellation points.
pub fn ready(wait: Duration) -> Ready {
    let mut file = libc::pollfd {
        fd: STDERR,
        events: libc::POLLOUT,
        revents: 0,
    };
    let wait = libc::timespec {
        tv_sec: wait.as_secs() as libc::time_t,
        tv_nsec: wait.subsec_nanos().into(),
    };
    // SAFETY: one entry and a time, which outlive the call; no mask of signals.
    let found = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            &raw mut file,
            1,
            &raw const wait,
            std::ptr::null::<libc::sigset_t>(),
            0,
        )
    };
    match found {
        0 => Ready::NotYet,
        _ if file.revents & (libc::POLLERR | libc::POLLNVAL) != 0 => Ready::Never,
        // A signal has come, or the file cannot be polled: the write says more.
        _ => Ready::Yes,
    }
}

/// Writes without blocking where the system can do that, once the file is ready; the bytes that were written.
///
/// # Errors
/// The system's number.
pub fn write_piece(piece: &[u8]) -> Result<usize, libc::c_int> {
    let part = libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    };
    let result = |written: libc::c_long| match usize::try_from(written) {
        Ok(written) => Ok(written),
        Err(_) => Err(std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)),
    };
    if is_pipe() {
        // SAFETY: one part, whose bytes outlive the call; at the file's own position.
        let written = unsafe {
            let current: libc::c_long = -1;
            libc::syscall(
                libc::SYS_pwritev2,
                STDERR,
                &raw const part,
                1,
                current,
                current,
                libc::RWF_NOWAIT,
            )
        };
        match result(written) {
            // Kernels that know no such write of a pipe.
            Err(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => {}
            other => return other,
        }
    }
    // SAFETY: the bytes outlive the call.
    result(unsafe { libc::syscall(libc::SYS_write, STDERR, piece.as_ptr(), piece.len()) })
}

fn is_pipe() -> bool {
    // SAFETY: all zeros is a valid value, which the call replaces.
    let mut file: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: writes one structure.
    let code = unsafe { libc::fstat(STDERR, &mut file) };
    code == 0 && file.st_mode & libc::S_IFMT == libc::S_IFIFO
}
