//! Which `mgbd` a process believes: the folder of its socket, and the user that listens there.
//!
//! Names in `/tmp` are for everybody to make. Whoever makes the folder of a socket first would otherwise be
//! the `mgbd` of its user: choose the user's GPUs, name the MPS that runs the user's kernels, the process
//! that `mgb stop` ends, and the file that a log is appended to. So every connection, and every file beside
//! the socket, goes through here.
//!
//! A folder is trusted where it is this user's or root's, nobody else can write it, and no link leads to it
//! but those in folders that only root or this user writes. Of the node's own socket ([`NODE_SOCKET`], and
//! its name for containers) the folder may be any user's to whom root gave it. What listens is trusted by its
//! user, as the kernel says it: this user, root, or the owner of the node's folder. In a container with a
//! user namespace that owner is the node's root, who has no number there, and who gave the folder is who made
//! the container.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

use crate::socket::{NODE_CLIENTS_SOCKET, NODE_SOCKET, peer};

/// Links on the way to a folder, as many as the kernel follows.
const MAX_LINKS: u32 = 40;
/// How a folder is opened: to look at, and to open files in.
const OPEN_FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Permissions of a group and of all others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Why a folder, a file in it, or a peer is not trusted. Fragments that follow its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// There is no such folder.
    #[error("does not exist")]
    Missing,
    /// A link leads there that another user may have made, or the folder itself is one.
    #[error("is reached by a link")]
    Link,
    /// Something else is there.
    #[error("is no directory")]
    NoFolder,
    /// The folder is another user's.
    #[error("belongs to uid {0}")]
    Owner(u32),
    /// Others than its owner can make files in it.
    #[error("can be written by others")]
    Writable,
    /// What is opened in it is no file, or another user's.
    #[error("is no file of this user's")]
    NoFile,
    /// A process of another user listens.
    #[error("is served by a process of uid {0}")]
    Peer(u32),
    /// A system call failed.
    #[error("cannot be looked at: {0}")]
    System(Errno),
}

impl From<Errno> for Untrusted {
    fn from(error: Errno) -> Untrusted {
        match error {
            Errno::NOENT => Untrusted::Missing,
            error => Untrusted::System(error),
        }
    }
}

/// The folder of a socket, which nobody but this user, root, or the node's `mgbd` can change.
#[derive(Debug)]
pub struct Folder {
    folder: OwnedFd,
    owner: u32,
    is_nodes: bool,
}

impl Folder {
    /// The folder that a socket lies in.
    ///
    /// # Errors
    /// There is none, or it is not trusted.
    pub fn of(socket: &Path) -> Result<Folder, Untrusted> {
        let is_nodes = [NODE_SOCKET, NODE_CLIENTS_SOCKET].contains(&socket.to_str().unwrap_or_default());
        Folder::open(folder_of(socket), is_nodes)
    }

    /// The folder of a socket at which this process is to listen: its own or root's, also the node's.
    ///
    /// # Errors
    /// As [`Folder::of`].
    pub fn of_own(socket: &Path) -> Result<Folder, Untrusted> {
        Folder::open(folder_of(socket), false)
    }

    /// Opens a folder. `is_nodes`: that of the node's `mgbd`.
    fn open(path: &Path, is_nodes: bool) -> Result<Folder, Untrusted> {
        let path = std::path::absolute(path).map_err(|_| Untrusted::NoFolder)?;
        let (folder, is_from_root) = reach(&path)?;
        let stat = fstat(&folder)?;
        let is_nodes = is_nodes && is_from_root;
        if !is_nodes && !is_own_or_roots(stat.st_uid) {
            return Err(Untrusted::Owner(stat.st_uid));
        }
        if stat.st_mode & OTHERS_WRITE != 0 {
            return Err(Untrusted::Writable);
        }
        Ok(Folder {
            folder,
            owner: stat.st_uid,
            is_nodes,
        })
    }

    /// Its owner and permissions.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn stat(&self) -> Result<Stat, Untrusted> {
        Ok(fstat(&self.folder)?)
    }

    /// Opens a file in it, without following a link; makes it, for this user alone, where `how` says so.
    ///
    /// # Errors
    /// There is none, it is no regular file, it is another user's, or it cannot be opened.
    pub fn file(&self, name: &OsStr, how: OFlags) -> Result<File, Untrusted> {
        let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = match openat(&self.folder, name, how, Mode::RUSR | Mode::WUSR) {
            Err(Errno::LOOP) => return Err(Untrusted::Link),
            file => file?,
        };
        let stat = fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || !self.trusts(stat.st_uid) {
            return Err(Untrusted::NoFile);
        }
        Ok(file.into())
    }

    /// Whether what listens at the other end of a connected socket may be `mgbd`.
    ///
    /// # Errors
    /// It is a process of a user that is not trusted.
    pub fn check_peer(&self, socket: &impl AsFd) -> Result<(), Untrusted> {
        let uid = peer(socket).ok_or(Untrusted::System(Errno::NOTCONN))?.uid;
        if self.trusts(uid) {
            Ok(())
        } else {
            Err(Untrusted::Peer(uid))
        }
    }

    fn trusts(&self, uid: u32) -> bool {
        is_own_or_roots(uid) || (self.is_nodes && uid == self.owner)
    }
}

/// The folder that a socket's path names.
pub fn folder_of(socket: &Path) -> &Path {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn is_own_or_roots(uid: u32) -> bool {
    uid == 0 || (uid == rustix::process::geteuid().as_raw() && is_a_user(uid))
}

/// What the kernel says of users without a number in this user namespace, of all of them together. This
/// process's own user may be one of them.
pub fn overflow_uid() -> u32 {
    let number = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    number.trim().parse().unwrap_or(65_534)
}

/// Whether a number stands for a user in this process's user namespace, and not only for those that have none
/// there: see [`overflow_uid`].
pub fn is_a_user(uid: u32) -> bool {
    mapped(&own_map()).any(|(first, count)| uid.checked_sub(first).is_some_and(|at| at < count))
}

/// Whether this process's user namespace leaves no user out.
pub fn has_all_users() -> bool {
    // The last number stands for none.
    mapped(&own_map()).map(|(_, count)| u64::from(count)).sum::<u64>() >= u64::from(u32::MAX)
}

fn own_map() -> String {
    std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// The ranges of a user namespace's numbers, as user_namespaces(7) has them: the first one, and how many.
fn mapped(map: &str) -> impl Iterator<Item = (u32, u32)> {
    map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        numbers.next().flatten().zip(numbers.nth(1).flatten())
    })
}

/// Opens a folder by an absolute path. Says as well whether all folders above it are root's, which nobody
/// else writes: then root has made it, or given it to its owner.
fn reach(path: &Path) -> Result<(OwnedFd, bool), Untrusted> {
    let root = || openat(CWD, "/", OPEN_FOLDER, Mode::empty());
    let mut folder = root()?;
    // Root may have no number here, in a user namespace: then it is the owner of `/`, which is root's
    // everywhere.
    let roots = [0, fstat(&folder)?.st_uid];
    let mut rest: VecDeque<OsString> = names(path).collect();
    let (mut is_from_root, mut links) = (true, 0);
    while let Some(name) = rest.pop_front() {
        let stat = fstat(&folder)?;
        let is_closed = stat.st_mode & OTHERS_WRITE == 0;
        let is_roots = roots.contains(&stat.st_uid);
        is_from_root &= is_closed && is_roots;
        match openat(&folder, &name, OPEN_FOLDER, Mode::empty()) {
            Ok(next) => folder = next,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let target = match readlinkat(&folder, &name, Vec::new()) {
                    Err(Errno::INVAL) => return Err(Untrusted::NoFolder),
                    target => target?,
                };
                links += 1;
                let may_lead = is_closed && (is_roots || is_own_or_roots(stat.st_uid));
                if rest.is_empty() || !may_lead || links > MAX_LINKS {
                    return Err(Untrusted::Link);
                }
                let target =
                    PathBuf::from(OsString::from(target.into_string().map_err(|_| Untrusted::Link)?));
                if target.is_absolute() {
                    folder = root()?;
                }
                for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                    rest.push_front(name);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((folder, is_from_root))
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    fn folder() -> (TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("mgb");
        fs::create_dir(&inner).unwrap();
        allow(&inner, 0o700);
        (outer, inner.join("mgbd.sock"))
    }

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn fault(socket: &Path) -> Untrusted {
        Folder::of(socket).unwrap_err()
    }

    #[test]
    fn a_folder_of_ones_own_is_trusted_and_no_other() {
        let (outer, socket) = folder();
        let inner = socket.parent().unwrap();
        assert!(Folder::of(&socket).is_ok());
        for mode in [0o770, 0o722, 0o1777] {
            allow(inner, mode);
            assert_eq!(fault(&socket), Untrusted::Writable, "{mode:o}");
        }
        allow(inner, 0o755);
        assert!(Folder::of(&socket).is_ok());
        assert_eq!(fault(&outer.path().join("none/mgbd.sock")), Untrusted::Missing);
        fs::write(&socket, "").unwrap();
        assert_eq!(fault(&socket.join("mgbd.sock")), Untrusted::NoFolder);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(inner, Some(20_001), None).unwrap();
            assert_eq!(fault(&socket), Untrusted::Owner(20_001));
            // Root has not made the folders above it alone: `/tmp` is everybody's.
            assert_eq!(Folder::open(inner, true).unwrap_err(), Untrusted::Owner(20_001));
        }
    }

    #[test]
    fn links_lead_there_from_folders_of_ones_own_alone() {
        let (outer, socket) = folder();
        let inner = socket.parent().unwrap();
        let link = outer.path().join("link");
        symlink(inner, &link).unwrap();
        assert_eq!(fault(&link.join("mgbd.sock")), Untrusted::Link);
        // Above the folder, in a folder that only this user writes.
        let deeper = inner.join("deeper");
        fs::create_dir(&deeper).unwrap();
        allow(&deeper, 0o700);
        let by_link = link.join("deeper/mgbd.sock");
        assert!(Folder::of(&by_link).is_ok());
        allow(outer.path(), 0o1777);
        assert_eq!(fault(&by_link), Untrusted::Link);
        allow(outer.path(), 0o700);
        symlink(&link, inner.join("loop")).unwrap();
        let other = outer.path().join("other");
        symlink(other.join("x"), &other).unwrap();
        assert_eq!(fault(&other.join("y/mgbd.sock")), Untrusted::Link);
        assert!(Folder::of(&inner.join("loop/deeper/../deeper/mgbd.sock")).is_ok());
    }

    #[test]
    fn files_beside_the_socket_are_no_links() {
        let (outer, socket) = folder();
        let folder = Folder::of(&socket).unwrap();
        let how = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY;
        let precious = outer.path().join("precious");
        fs::write(&precious, "").unwrap();
        symlink(&precious, socket.with_file_name("log")).unwrap();
        symlink(outer.path().join("new"), socket.with_file_name("dangling")).unwrap();
        fs::create_dir(socket.with_file_name("folder")).unwrap();
        assert_eq!(folder.file(OsStr::new("log"), how).unwrap_err(), Untrusted::Link);
        assert_eq!(
            folder.file(OsStr::new("dangling"), how).unwrap_err(),
            Untrusted::Link
        );
        assert!(!outer.path().join("new").exists());
        assert!(folder.file(OsStr::new("folder"), OFlags::RDONLY).is_err());
        assert!(folder.file(OsStr::new("file"), how).is_ok());
        let fifo = socket.with_file_name("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(
            folder.file(OsStr::new("fifo"), OFlags::RDONLY).unwrap_err(),
            Untrusted::NoFile
        );
    }

    #[test]
    fn the_numbers_of_users_are_known() {
        assert!(is_a_user(rustix::process::geteuid().as_raw()));
        assert!(!is_a_user(u32::MAX));
        let ranges: Vec<_> = mapped("  0 100000 65536\n 70000 1000 1\n").collect();
        assert_eq!(ranges, [(0, 65_536), (70_000, 1)]);
    }

    #[test]
    fn what_listens_is_known_by_its_user() {
        let (_outer, socket) = folder();
        let folder = Folder::of(&socket).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let line = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        assert_eq!(folder.check_peer(&line), Ok(()));
        drop(listener);
        let other = Folder {
            is_nodes: true,
            owner: 20_001,
            ..folder
        };
        assert!(other.trusts(20_001) && !other.trusts(20_002));
        let own = Folder {
            is_nodes: false,
            ..other
        };
        assert!(!own.trusts(20_001));
    }
}
