//! Who is at the other end of a UNIX socket, and whether a process is still there.

use std::os::fd::{AsRawFd, OwnedFd};

/// The process at the other end. Asked for as plain numbers: the kernel says pid 0 for a process that is not
/// visible here.
pub(crate) fn peer(socket: &OwnedFd) -> Option<libc::ucred> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes of plain data to `peer`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    (done == 0).then_some(peer)
}

/// The groups of the process at the other end, as it connected: its own and the supplementary ones.
pub(crate) fn groups(socket: &OwnedFd) -> Vec<u32> {
    // More than a process may be in (`NGROUPS_MAX`).
    let mut groups = vec![0u32; 1 << 16];
    let mut size = (groups.len() * size_of::<u32>()) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes of plain numbers, and says how many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    groups.truncate(if done == 0 {
        size as usize / size_of::<u32>()
    } else {
        0
    });
    groups.extend(peer(socket).map(|peer| peer.gid));
    groups
}

/// Whether a process has ended, waited for by its parent or not.
pub(crate) fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with(['Z', 'X']))
    })
}
