//! Whether the process at the other end of a socket may do all that this one may: only to such a one the
//! holder gives what it holds, and only from such a one `mgbd` takes what was left.
//!
//! The same user is not enough. The superuser of a container may be the node's, and a sandbox of a user's is
//! that user. So it has to be in the same user and PID namespaces and have the same root directory and
//! capabilities: what the kernel asks of a process before another one may debug it, and more. What cannot be
//! found out counts as different.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::io::Errno;

use crate::peer::{is_over, peer, process};

/// How a process differs from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// The kernel does not say who it is.
    #[error("the kernel does not say which process it is: {0}")]
    Unknown(Errno),
    /// It has ended, and its number may be another's.
    #[error("its process has ended")]
    Gone,
    /// It is another user's.
    #[error("it runs as uid {0}")]
    Uid(u32),
    /// It is in another place; its name says which.
    #[error("it has another {0}, or one that cannot be seen")]
    Place(&'static str),
    /// It may do other things.
    #[error("it has other capabilities, or such that cannot be seen")]
    Capabilities,
}

/// What has to be the same file for two processes, in their folders of `/proc`.
const PLACES: [(&str, &str); 3] = [
    ("ns/user", "user namespace"),
    ("ns/pid", "PID namespace"),
    ("root", "root directory"),
];

/// The number of the process at the other end, if that is one like this one.
pub fn check(socket: &OwnedFd) -> Result<u32, Stranger> {
    let peer = peer(socket).ok_or(Stranger::Unknown(Errno::NOTCONN))?;
    if peer.uid != rustix::process::geteuid().as_raw() {
        return Err(Stranger::Uid(peer.uid));
    }
    let process = process(socket, Duration::ZERO).map_err(|error| match error {
        Errno::SRCH => Stranger::Gone,
        error => Stranger::Unknown(error),
    })?;
    // A process of another PID namespace has no number here.
    let pid = u32::try_from(peer.pid).ok().filter(|pid| *pid > 0);
    let pid = pid.ok_or(Stranger::Place("PID namespace"))?;
    let theirs = pid.to_string();
    for (file, name) in PLACES {
        let place = place(&theirs, file).ok_or(Stranger::Place(name))?;
        if Some(place) != self::place("self", file) {
            return Err(Stranger::Place(name));
        }
    }
    let capabilities = capabilities(&theirs, "CapPrm").ok_or(Stranger::Capabilities)?;
    if Some(capabilities) != self::capabilities("self", "CapPrm") {
        return Err(Stranger::Capabilities);
    }
    // Looked at last: until here the number was this process's.
    if is_over(&process) {
        return Err(Stranger::Gone);
    }
    Ok(pid)
}

fn place(process: &str, file: &str) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(format!("/proc/{process}/{file}")).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The capabilities of a process: those that it may use (`CapPrm`), or uses (`CapEff`).
fn capabilities(process: &str, set: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(set))?;
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).ok()
}

/// Whether a process of the right user could trace this one: it is in this one's user and PID namespaces, and
/// uses all the capabilities that this one uses. The caller makes sure that the number is still its
/// process's.
pub fn may_trace_this(pid: u32) -> bool {
    let pid = pid.to_string();
    let is_here = |file| place(&pid, file).is_some_and(|there| Some(there) == place("self", file));
    let uses = |process| capabilities(process, "CapEff");
    let is_as_able = uses(&pid)
        .zip(uses("self"))
        .is_some_and(|(theirs, own)| covers(theirs, own));
    is_here("ns/user") && is_here("ns/pid") && is_as_able
}

/// Whether one set of capabilities has all of another.
fn covers(set: u64, other: u64) -> bool {
    set & other == other
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_can_do_less_may_not_trace() {
        assert!(covers(0b111, 0b110) && covers(0b110, 0b110) && !covers(0b101, 0b110));
        assert!(may_trace_this(std::process::id()));
        assert!(!may_trace_this(u32::MAX));
    }

    /// As in a container: the node's files under another root.
    const CHROOT: &str = "mount -t tmpfs none /mnt && cd /mnt && cp -d /bin /lib /lib64 . \
                          && mkdir usr tmp proc \
                          && for one in usr tmp proc; do mount --rbind /$one $one; done \
                          && exec chroot . \"$@\"";

    /// Who a program is that connects, as a command with the socket as its last argument.
    fn asked(words: &[&str]) -> Option<Result<u32, Stranger>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let connect = "import socket, sys\n\
                       line = socket.socket(socket.AF_UNIX)\n\
                       line.connect(sys.argv[1])\n\
                       sys.stdin.read()";
        let mut command = Command::new(words.first().copied().unwrap_or("python3"));
        command
            .args(words.iter().skip(1))
            .args((!words.is_empty()).then_some("python3"));
        let mut child = command
            .args(["-c", connect])
            .arg(&path)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let line = loop {
            if let Ok((line, _)) = listener.accept() {
                break line;
            }
            // It may not be allowed here what the command does.
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = check(&line.into());
        drop(child.stdin.take());
        child.wait().unwrap();
        Some(said)
    }

    #[test]
    fn a_process_like_this_one_is_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(check(&one.into()), Ok(std::process::id()));
        assert!(asked(&[]).unwrap().is_ok());
    }

    #[test]
    fn the_same_user_elsewhere_is_a_stranger() {
        for (words, why) in [
            (
                &["unshare", "--user", "--map-current-user"][..],
                Stranger::Place("user namespace"),
            ),
            (&["unshare", "--pid", "--fork"], Stranger::Place("PID namespace")),
            (
                &["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
                Stranger::Capabilities,
            ),
            (
                &["unshare", "--mount", "sh", "-c", CHROOT, "sh"],
                Stranger::Place("root directory"),
            ),
        ] {
            match asked(words) {
                None => eprintln!("left out: {words:?} is not allowed here"),
                Some(said) => assert_eq!(said, Err(why), "{words:?}"),
            }
        }
    }
}
