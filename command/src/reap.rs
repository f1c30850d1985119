//! Waits for a child, and asks the kernel what it took.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// What the kernel says of a process that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// Processor time, of the process and of the children that it waited for.
    pub cpu: Duration,
    /// The most host memory that one of them had at once, in bytes.
    pub peak_bytes: u64,
}

/// Waits for a child as the standard library does, and asks what it took as well.
///
/// # Errors
/// The system's: it is no child of this process, or was waited for before.
pub fn reap(pid: u32) -> std::io::Result<Reaped> {
    let mut status = 0;
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are valid for writing.
        let waited = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage) };
        if waited >= 0 {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
    Ok(Reaped {
        status: ExitStatus::from_raw(status),
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        // Linux counts it in KiB.
        peak_bytes: (usage.ru_maxrss as u64) << 10,
    })
}
