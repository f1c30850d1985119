//! Who is at the other end of a UNIX socket, and whether a process is still there.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub use mgb_probe::peer;

/// The groups of the process at the other end, as it connected: its own and the supplementary ones.
pub fn groups(socket: &OwnedFd) -> Vec<u32> {
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

/// A pidfd of the process that connected, or began to listen: not of another one that has its number by now.
/// `waited`: how long ago the connection was accepted.
///
/// # Errors
/// `SRCH` if that process is gone, and what the kernel says otherwise.
pub fn process(socket: &OwnedFd, waited: Duration) -> Result<OwnedFd, Errno> {
    match peer_pidfd(socket) {
        Err(Errno::NOPROTOOPT) => by_number(socket, waited),
        // What some kernels say of a process that was waited for.
        Err(Errno::INVAL) => Err(Errno::SRCH),
        other => other,
    }
}

fn peer_pidfd(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut fd: libc::c_int = -1;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes of plain data to `fd`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut size,
        )
    };
    if done != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the kernel has just made this descriptor for us; it is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As [`process`], on a kernel before 6.5: the process that has the number now, if it was there when the
/// connection was accepted and is of the user who connected. One that took the number before that is not told
/// from the one that connected.
fn by_number(socket: &OwnedFd, waited: Duration) -> Result<OwnedFd, Errno> {
    let peer = peer(socket).ok_or(Errno::SRCH)?;
    let pid = Pid::from_raw(peer.pid).ok_or(Errno::SRCH)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let pid = peer.pid as u32;
    let since = started(pid).ok_or(Errno::SRCH)?;
    let is_it = since <= since_boot().saturating_sub(waited) && is_of(pid, peer.uid) == Some(true);
    // Looked at last: until here the number was this process's.
    if is_it && !is_over(&process) {
        Ok(process)
    } else {
        Err(Errno::SRCH)
    }
}

/// Whether the process of a pidfd has ended.
pub fn is_over(process: impl AsFd) -> bool {
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    !matches!(poll(&mut ended, Some(&Timespec::default())), Ok(0))
}

/// Whether a process is one that this user could signal: its real or saved user is this one. Not so once it
/// has become another user's, by a program that changes users. `None`: it is not seen here.
pub fn is_of(pid: u32, uid: u32) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let uids: Vec<u32> = line
        .split_whitespace()
        .filter_map(|uid| uid.parse().ok())
        .collect();
    Some(matches!(uids.as_slice(), [real, _, saved, _] if *real == uid || *saved == uid))
}

/// When a process was started, from the start of the machine.
pub fn started(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22, see proc(5); the name before the last parenthesis may hold anything.
    let ticks = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    let ticks: u64 = ticks.parse().ok()?;
    let second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_millis(ticks * 1000 / second))
}

fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Whether a process has ended, waited for by its parent or not.
pub fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with(['Z', 'X']))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let (one, other) = UnixStream::pair().unwrap();
        (one.into(), other.into())
    }

    #[test]
    fn the_process_at_the_other_end_is_this_one() {
        let (one, _other) = pair();
        assert!(!is_over(process(&one, Duration::ZERO).unwrap()));
        assert!(!is_over(by_number(&one, Duration::ZERO).unwrap()));
        let own = rustix::process::geteuid().as_raw();
        let is_of = |uid| is_of(std::process::id(), uid);
        assert_eq!((is_of(own), is_of(own + 1)), (Some(true), Some(false)));
    }

    #[test]
    fn by_number_a_process_that_began_later_is_another_one() {
        let (one, _other) = pair();
        // As if the connection had been accepted before this process began.
        let long = since_boot().saturating_sub(started(std::process::id()).unwrap()) + Duration::from_secs(1);
        assert_eq!(by_number(&one, long).unwrap_err(), Errno::SRCH);
    }
}
