//! The driver's files of this process, which mgbd keeps open in case it is killed: see mgbd's `keep`.

use std::os::fd::BorrowedFd;

use mgb_probe::Client;
use mgb_probe::wire::MOST_KEPT;
use rustix::io::Errno;

use crate::mps;

/// Passes to mgbd the files by which the driver recognises this process. Called when a context was made:
/// they are open then. Without MPS the end of a process harms no other process, and nothing is passed.
///
/// # Errors
/// mgbd is gone, or takes none: if this process is killed at work, others fail.
pub fn pass(client: &Client) -> Result<(), Errno> {
    if !mps::is_used(client.hello()) {
        return Ok(());
    }
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let files: Vec<BorrowedFd<'_>> = entries
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.to_str().is_some_and(is_driver)))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        // SAFETY: the driver has opened it and keeps it open; should it not, the call fails or sends another
        // file, which mgbd does not take.
        .map(|number| unsafe { BorrowedFd::borrow_raw(number) })
        .take(MOST_KEPT)
        .collect();
    client.keep(&files)
}

/// What people are told where that fails.
pub fn failure(error: Errno) -> String {
    format!(
        "failed to hand mgbd the driver's files ({error}): if this program is killed at work, others fail"
    )
}

/// Whether a path is the driver's control file, that of its unified memory, or a GPU's.
fn is_driver(path: &str) -> bool {
    path.strip_prefix("/dev/nvidia").is_some_and(|rest| {
        matches!(rest, "ctl" | "-uvm") || (!rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::is_driver;

    #[test]
    fn only_the_driver_s_own_files_are_given() {
        for path in [
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia0",
            "/dev/nvidia15",
        ] {
            assert!(is_driver(path), "{path}");
        }
        for path in [
            "/dev/nvidia",
            "/dev/nvidia-modeset",
            "/dev/nvidia-caps/nvidia-cap1",
            "/dev/null",
            "/tmp/nvidia0",
        ] {
            assert!(!is_driver(path), "{path}");
        }
    }
}
