//! The socket: its folder, its lock, one `mgbd` at a time.
//!
//! The lock file beside the socket says who runs there: a held `flock` is a
//! living `mgbd`, whatever files lie about. A thread that shares no descriptors has
//! it: a file of a client's that cannot be closed keeps threads of an `mgbd` that was
//! killed, and what these have open, but not the lock. What a crashed one left behind (the
//! socket, its node view) is noted in the same file and cleared away. What outlives
//! an `mgbd` is with the holder (see [`crate::holder`]).

use std::fs::{File, OpenOptions, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mgb_interface::folders::{file_at, share, unshare};
use mgb_interface::holder::packet::bind;
use mgb_probe::lock_path;
use mgb_probe::trust::{Folder, folder_of};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::daemon::threads::apart::OwnThread;
use crate::note::Note;
use crate::users::Users;

/// How long the lock may be held by somebody else until that counts as another `mgbd`.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often to try.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Why `mgbd` cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another one does.
    #[error("mgbd already runs at {path} (pid {pid}); use it, stop it, or choose another --socket")]
    Running {
        /// The path of the socket.
        path: PathBuf,
        /// The pid of the process that holds it, as its lock file says.
        pid: String,
    },
    /// The folder is not ours alone.
    #[error("{path} {why}; choose another --socket, or set MGB_SOCKET")]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something is in the way.
    #[error("{0} is there and is no socket; remove it, or choose another --socket")]
    InTheWay(PathBuf),
    /// A system call failed.
    #[error("failed to {what} {path}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The path that the call was about.
        path: PathBuf,
        /// Why it failed.
        error: std::io::Error,
    },
}

/// The listening socket; removed when dropped.
pub struct Listener {
    /// `None` until [`Listener::listen`].
    socket: Option<OwnedFd>,
    /// The file at which it listens, once it does, unless that is systemd's.
    file: Option<(u64, u64)>,
    path: PathBuf,
    /// The lock's file, for the note in it.
    lock: File,
    /// The file that is locked.
    _held: OwnThread,
    /// What a crashed predecessor left.
    pub(crate) left: Option<Note>,
}

impl Listener {
    /// Takes the lock, so that this is the only `mgbd` here. `activated`: the socket, where systemd has made
    /// it.
    pub fn open(path: &Path, users: &Users, activated: Option<&OwnedFd>) -> Result<Listener, ListenError> {
        private_folder(path, users)?;
        let lock_file = lock_path(path);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&lock_file)
            .map_err(failed("open the lock file", &lock_file))?;
        match lock_soon(&lock) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let pid = Note::read(&lock).map_or_else(|| "unknown".to_owned(), |note| note.pid.to_string());
                return Err(ListenError::Running {
                    path: path.to_owned(),
                    pid,
                });
            }
            Err(error) => return Err(failed("lock", &lock_file)(error.into())),
        }
        // The lock is that of the opened file, not of this one.
        let note = OpenOptions::new().read(true).write(true).open(own_path(&lock));
        let note = note.map_err(failed("open the lock file", &lock_file))?;
        let held = OwnThread::new("lock", vec![lock.into()]).map_err(failed("keep", &lock_file))?;
        let left = Note::read(&note);
        let socket = match activated {
            Some(socket) => {
                // The loop takes all who have come, and goes on.
                rustix::io::ioctl_fionbio(socket, true)
                    .map_err(|error| failed("set up", path)(error.into()))?;
                Some(socket.try_clone().map_err(failed("take", path))?)
            }
            None => None,
        };
        if socket.is_none() {
            check_way(path)?;
        }
        let mut listener = Listener {
            socket,
            file: None,
            path: path.to_owned(),
            lock: note,
            _held: held,
            left,
        };
        // What another one left is known by its note until this one listens.
        let note = Note {
            pid: std::process::id(),
            ..listener.left.clone().unwrap_or_default()
        };
        listener.note(&note).map_err(failed("write", &lock_file))?;
        Ok(listener)
    }

    /// Listens, at a socket that another `mgbd` has left if clients find that there: they wait at it.
    pub(crate) fn listen(&mut self, left: Option<OwnedFd>, users: &Users) -> Result<(), ListenError> {
        if self.socket.is_some() {
            self.share(users);
            return Ok(());
        }
        let path = &self.path;
        let noted = self.left.as_ref().and_then(|note| note.socket);
        let is_there = noted.is_some() && noted == file_at(path);
        self.socket = match left.filter(|_| is_there) {
            Some(left) => {
                // The mgbd before may have served others.
                protect(path, users)?;
                Some(left)
            }
            None => {
                // The name appears once the socket listens: a client that finds it before would take mgbd for
                // gone.
                let aside = path.with_file_name(".new");
                let _ = std::fs::remove_file(&aside);
                let socket = bind(&aside).map_err(|error| failed("listen at", &aside)(error.into()))?;
                protect(&aside, users)?;
                std::fs::rename(&aside, path).map_err(failed("name the socket", path))?;
                Some(socket)
            }
        };
        self.file = file_at(path);
        self.share(users);
        Ok(())
    }

    /// Gives the socket its second name, where containers find it.
    fn share(&self, users: &Users) {
        if let Err(error) = share(&self.path, users.folder_mode()) {
            tracing::warn!(%error, "containers do not find mgbd: it has no folder for clients");
        }
    }

    /// The socket that clients connect to.
    pub(crate) fn socket(&self) -> &OwnedFd {
        self.socket.as_ref().expect("it listens before anybody asks")
    }

    /// The file at which it listens, for who clears away after `mgbd`. `None`: it is systemd's, which listens
    /// there on and would not make the name again.
    pub(crate) fn file(&self) -> Option<(u64, u64)> {
        self.file
    }

    /// Writes down what a successor must know after a crash.
    pub(crate) fn note(&mut self, note: &Note) -> std::io::Result<()> {
        note.write(&self.lock)
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // One that never listened leaves what another has left to the next one.
        if self.socket.is_none() {
            return;
        }
        // The lock file stays: removing it would let two daemons hold locks on
        // two files of one name. Its lock ends with the descriptor.
        if let Some(file) = self.file
            && file_at(&self.path) == Some(file)
        {
            unshare(&self.path, file);
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = self.lock.set_len(0);
    }
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> ListenError + 'a {
    move |error| ListenError::System {
        what,
        path: path.to_owned(),
        error,
    }
}

/// A path by which this process finds a file that it has open, whatever its name is now.
fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Takes the lock, which is also held for a moment by who clears away after an `mgbd` that is gone.
fn lock_soon(lock: &File) -> Result<(), Errno> {
    let began = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < LOCK_TIMEOUT => std::thread::sleep(LOCK_INTERVAL),
            other => return other,
        }
    }
}

/// Lets these users alone connect to a socket.
fn protect(socket: &Path, users: &Users) -> Result<(), ListenError> {
    let mode = Permissions::from_mode(users.socket_mode());
    std::os::unix::fs::chown(socket, None, users.socket_group())
        .and_then(|()| std::fs::set_permissions(socket, mode))
        .map_err(failed("protect", socket))
}

/// Makes the folder of a socket, for these users only; accepts one that is there if nobody else can put a
/// socket of his own into our place.
fn private_folder(socket: &Path, users: &Users) -> Result<(), ListenError> {
    let folder = folder_of(socket);
    match std::fs::DirBuilder::new()
        .recursive(true)
        .mode(users.folder_mode())
        .create(folder)
    {
        Ok(()) => {}
        Err(error) => return Err(failed("make the folder", folder)(error)),
    }
    let fault = |why| ListenError::Folder {
        path: folder.to_owned(),
        why,
    };
    let stat = Folder::of_own(socket).and_then(|own| own.stat());
    let stat = stat.map_err(|why| fault(why.to_string()))?;
    if users.are_several() && stat.st_mode & 0o011 == 0 {
        return Err(fault(format!(
            "cannot be entered by others than uid {}",
            stat.st_uid
        )));
    }
    Ok(())
}

/// Looks for what is no socket where the socket is to be. A socket there is replaced, whoever listens at it:
/// the caller holds the lock, so it is no `mgbd` that serves. The kernel would name the process that began to
/// listen, which may have been the first `mgbd` of many, and whose number is anybody's by now.
fn check_way(path: &Path) -> Result<(), ListenError> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(ListenError::InTheWay(path.to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_second_one_is_told_who_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/mgbd.sock");
        let first = Listener::open(&path, &Users::Own, None).unwrap();
        let mode = std::fs::metadata(path.parent().unwrap()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        let error = Listener::open(&path, &Users::Own, None)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains(&format!("(pid {})", std::process::id())),
            "{error}"
        );
        drop(first);
        assert!(!path.exists());
        Listener::open(&path, &Users::Own, None).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced_and_its_note_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mgbd.sock");
        let mut crashed = Listener::open(&path, &Users::Own, None).unwrap();
        let note = Note {
            pid: 1,
            views: vec!["/v".to_owned()],
            socket: None,
        };
        crashed.note(&note).unwrap();
        // As a crash does: descriptors closed, nothing cleaned up.
        let lock = crashed.lock.try_clone().unwrap();
        let text = std::fs::read_to_string(lock_path(&path)).unwrap();
        drop(crashed);
        drop(lock);
        std::fs::write(lock_path(&path), text).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert_eq!(Listener::open(&path, &Users::Own, None).unwrap().left, Some(note));
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mgbd.sock");
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(
            Listener::open(&path, &Users::Own, None),
            Err(ListenError::InTheWay(_))
        ));
        assert!(path.exists());
    }

    #[test]
    fn a_folder_open_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o1777] {
            std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let error = Listener::open(&folder.path().join("mgbd.sock"), &Users::Own, None)
                .err()
                .unwrap();
            assert!(matches!(error, ListenError::Folder { .. }), "{mode:o}");
        }
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, link) = (folder.path().join("inner"), folder.path().join("link"));
        std::fs::create_dir(&inner).unwrap();
        std::fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&inner, &link).unwrap();
        let at = |path: &Path| Listener::open(path, &Users::Own, None).err();
        assert!(matches!(
            at(&link.join("mgbd.sock")),
            Some(ListenError::Folder { .. })
        ));
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "mine").unwrap();
        let socket = inner.join("mgbd.sock");
        std::os::unix::fs::symlink(&precious, lock_path(&socket)).unwrap();
        assert!(matches!(at(&socket), Some(ListenError::System { .. })));
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");
    }
}
