//! Whose a client is: the account that its programs are charged to, and whether its orders are an
//! administrator's.
//!
//! The kernel names the user of every connection, and an account is mostly that user. Three kinds of users
//! say less:
//!
//! - **uid 0 of a container** is root's number, and where the container has no user namespace of its own also
//!   root's user. It is neither the administrator nor root's account, but its container's: that of its
//!   control group, which nothing in a container leaves.
//! - **A subordinate user** (`/etc/subuid`) is one of up to 65536 that a user has by making a user namespace.
//!   All of them are that user's account.
//! - **A user without a number** in `mgbd`'s own user namespace is one of all others together, and known by
//!   the control group as well. Where the namespace leaves users out, the number that they have together is
//!   nobody's, also if it stands for a user there; nor is it `mgbd`'s own, if that has no other.
//!
//! An administrator is root, or the user who runs `mgbd`, as far as the process could do to `mgbd` what an
//! administrator does: it is in `mgbd`'s user and PID namespaces, and has all the capabilities that `mgbd`
//! has. That is what the kernel asks before one process may trace another.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use mgb_interface::kinship::may_trace_this;
use mgb_interface::peer::{is_over, peer, process};
use mgb_probe::trust::{has_all_users, is_a_user, overflow_uid};

use crate::daemon::accept::subordinate::{FIRST_GROUP, Subordinates};

/// How many such numbers there are.
const GROUPS: u64 = 0x1000_0000;

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its user, as the kernel says.
    pub(crate) uid: u32,
    /// Whom it is charged to: a user, or from [`FIRST_GROUP`] on a control group.
    pub(crate) account: u32,
    /// Whether its orders are about everybody's programs.
    pub(crate) administers: bool,
}

/// What is known of users.
#[derive(Debug)]
pub(crate) struct Identities {
    /// Who runs `mgbd`; `None`: one without a number.
    own: Option<u32>,
    /// The number of all users who have none; `None`: all have one.
    unknown: Option<u32>,
    subordinates: Subordinates,
}

impl Identities {
    /// `subordinates`: the file that says whose subordinate users are.
    pub(crate) fn new(subordinates: PathBuf) -> Identities {
        Identities {
            own: own(),
            unknown: (!has_all_users()).then(overflow_uid),
            subordinates: Subordinates::new(subordinates),
        }
    }

    /// Whose the process is that has connected here.
    pub(crate) fn of(&mut self, socket: &OwnedFd) -> Identity {
        match peer(socket) {
            Some(peer) => self.of_process(peer.uid, peer.pid as u32, || still_runs(socket)),
            None => Identity {
                uid: u32::MAX,
                account: u32::MAX,
                administers: false,
            },
        }
    }

    /// Whose a process is that the kernel says is this user's; `is_it`: whether the number is still that
    /// process's.
    fn of_process(&mut self, uid: u32, pid: u32, is_it: impl Fn() -> bool) -> Identity {
        let may_administer = uid == 0 || Some(uid) == self.own;
        let administers = may_administer && may_trace_this(pid) && is_it();
        let user = self.subordinates.owner(uid);
        // Users that root has for containers are no root either.
        let says_nothing = !administers && (user == 0 || Some(uid) == self.unknown);
        let account = if says_nothing {
            account_of_group(&group_of(pid))
        } else {
            user
        };
        Identity {
            uid,
            account,
            administers,
        }
    }
}

/// Who runs `mgbd`; `None`: one without a number in its user namespace, as many others are.
pub(crate) fn own() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw()).filter(|own| is_a_user(*own))
}

/// Whether the process that has just connected is there, so that its number is no other one's.
fn still_runs(socket: &OwnedFd) -> bool {
    process(socket, Duration::ZERO).is_ok_and(|process| !is_over(process))
}

/// The control group of a process, as far as it is none that the process may have made: of the second
/// version, or of systemd's hierarchy of the first. Empty where the system does not say.
fn group_of(pid: u32) -> String {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = |hierarchy: &str| {
        let mut lines = groups
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, path)| *controllers == hierarchy && *path != "/")
    };
    let found = path("")
        .or_else(|| path("name=systemd"))
        .or_else(|| path("memory"));
    found.map_or_else(String::new, |(_, path)| outermost(path).to_owned())
}

/// The part of a group's path down to the first group that a service manager or container runtime has made.
/// What is below may be the container's own doing, and a container with many groups is one; of a path without
/// such a group nothing counts.
fn outermost(path: &str) -> &str {
    let is_whole = |name: &str| {
        let digits = name.rsplit(['-', ':']).next().unwrap_or(name);
        let digits = digits.strip_suffix(".scope").unwrap_or(digits);
        let is_id = digits.len() >= 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id || name.ends_with(".scope") || name.ends_with(".service")
    };
    let mut end = 0;
    for name in path.split_inclusive('/') {
        end += name.len();
        if is_whole(name.trim_end_matches('/')) {
            return path[..end].trim_end_matches('/');
        }
    }
    ""
}

/// The number of a control group's account: the same under the next `mgbd`.
fn account_of_group(group: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    group.hash(&mut hasher);
    FIRST_GROUP + (hasher.finish() % GROUPS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_administers_as_far_as_the_user_who_runs_mgbd_does() {
        let mut identities = Identities::new("/no/subuid".into());
        let (own, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
        let identity = identities.of_process(own, pid, || true);
        assert_eq!((identity.account, identity.administers), (own, true));
        let other = identities.of_process(own + 20_001, pid, || true);
        assert_eq!((other.account, other.administers), (own + 20_001, false));
        let gone = identities.of_process(own, pid, || false);
        assert!(!gone.administers && (own != 0 || gone.account >= FIRST_GROUP));
    }

    #[test]
    fn who_has_no_number_is_nobody_in_particular() {
        let (own, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
        let identities = |known| Identities {
            own: Some(own).filter(|_| known),
            unknown: Some(own),
            subordinates: Subordinates::new("/no/subuid".into()),
        };
        if own != 0 {
            let identity = identities(false).of_process(own, pid, || true);
            assert!(!identity.administers && identity.account >= FIRST_GROUP);
        }
        let identity = identities(true).of_process(own, pid, || true);
        assert_eq!((identity.account, identity.administers), (own, true));
        // Another one, who has the number as well.
        let identity = identities(true).of_process(own, 1, || false);
        assert!(!identity.administers && identity.account >= FIRST_GROUP);
    }

    #[test]
    fn a_container_is_one_group_whatever_is_below() {
        let id = "0123456789abcdef".repeat(4);
        let docker = format!("/system.slice/docker-{id}.scope");
        for (path, part) in [
            (format!("{docker}/a/b"), docker.as_str()),
            (docker.clone(), docker.as_str()),
            (
                format!("/kubepods/burstable/pod7/{id}/x"),
                &format!("/kubepods/burstable/pod7/{id}"),
            ),
            (
                "/machine.slice/libpod-x.scope/container/y.scope".to_owned(),
                "/machine.slice/libpod-x.scope",
            ),
            (
                "/user.slice/user@7.service/a.scope".to_owned(),
                "/user.slice/user@7.service",
            ),
            ("/made/by/somebody".to_owned(), ""),
            ("/".to_owned(), ""),
        ] {
            assert_eq!(outermost(&path), part, "{path}");
        }
        assert_ne!(account_of_group("/a.scope"), account_of_group("/b.scope"));
        assert!(account_of_group("") >= FIRST_GROUP);
    }
}
