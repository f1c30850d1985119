//! Where the files of an `mgbd` lie, by who may reach them.
//!
//! | path beside the socket | who | what |
//! |---|---|---|
//! | `SOCKET.private/` | the user of `mgbd` (0700), never a container | the holder's socket and its lock |
//! | `clients/` | clients, containers among them | another name of the socket, and MPS's pipe: nothing else |
//!
//! The superuser of a container may be the superuser of the node without its capabilities: permissions do not
//! keep such a process out of a folder that it finds, so it finds `clients/` alone.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The folder for clients, beside the socket.
const CLIENTS: &str = "clients";

/// A path beside the socket of `mgbd`: that of its private folder, of the log.
pub fn beside(socket: &Path, ending: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The folder that containers mount.
pub fn clients_of(socket: &Path) -> PathBuf {
    socket.with_file_name(CLIENTS)
}

/// The name of a file, by device and number.
pub fn file_at(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The private folder of an `mgbd`: a directory of this user's that nobody else may enter.
pub struct Private(OwnedFd);

impl Private {
    /// Makes it if it is not there.
    ///
    /// # Errors
    /// When it cannot be made, or what is there is not this user's alone.
    pub fn open(socket: &Path) -> Result<Private> {
        make(&beside(socket, ".private"), 0o700)?;
        Private::find(socket)
    }

    /// The one that is there.
    ///
    /// # Errors
    /// When there is none, or it is not this user's alone.
    pub fn find(socket: &Path) -> Result<Private> {
        let path = beside(socket, ".private");
        let (folder, mode) = own_folder(&path)?;
        if mode & 0o077 != 0 {
            return Err(refused(&path, "is open to others"));
        }
        Ok(Private(folder))
    }

    /// The path of a file in it, for this process: whatever becomes of the folder's name, and short enough
    /// for a socket.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}

/// Makes a folder in the one for clients, with this mode; all of it belongs to this user.
///
/// # Errors
/// When it cannot be made, or what is there is somebody else's, or no folder.
pub fn make_for_clients(socket: &Path, name: &str, mode: u32) -> Result<PathBuf> {
    let clients = clients_of(socket);
    make_own(&clients, mode)?;
    let path = clients.join(name);
    make_own(&path, mode)?;
    Ok(path)
}

/// Gives the socket another name in the folder for clients: the same file, so that who connects there comes
/// to the same queue.
///
/// # Errors
/// When the folder cannot be had, or its file system does not give a socket two names.
pub fn share(socket: &Path, mode: u32) -> Result<()> {
    let clients = clients_of(socket);
    make_own(&clients, mode)?;
    let Some(name) = shared_name(socket) else {
        return Ok(());
    };
    if file_at(&name) == file_at(socket) {
        return Ok(());
    }
    let aside = clients.join(".new");
    match std::fs::remove_file(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::hard_link(socket, &aside)?;
    std::fs::rename(&aside, &name)
}

/// Takes away the second name of a socket that is this file.
pub fn unshare(socket: &Path, file: (u64, u64)) {
    if let Some(name) = shared_name(socket)
        && file_at(&name) == Some(file)
    {
        let _ = std::fs::remove_file(name);
    }
}

/// The second name of a socket; `None`: it has no first one.
fn shared_name(socket: &Path) -> Option<PathBuf> {
    Some(clients_of(socket).join(socket.file_name()?))
}

fn make(path: &Path, mode: u32) -> Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder of this user's with this mode, whatever the umask.
fn make_own(path: &Path, mode: u32) -> Result<()> {
    make(path, mode)?;
    let (folder, is) = own_folder(path)?;
    if is != mode {
        rustix::fs::fchmod(folder, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// A folder of this user's, reached without a link at its end, and its permissions.
fn own_folder(path: &Path) -> Result<(OwnedFd, u32)> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&folder)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused(path, &format!("belongs to uid {}", stat.st_uid)));
    }
    Ok((folder, stat.st_mode & 0o7777))
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_private_folder_is_this_users_alone_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mgbd.sock");
        assert!(Private::find(&socket).is_err());
        let private = Private::open(&socket).unwrap();
        std::fs::write(private.path("file"), "").unwrap();
        let path = folder.path().join("mgbd.sock.private");
        assert!(path.join("file").exists());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o710)).unwrap();
        assert!(Private::open(&socket).is_err());
        let elsewhere = folder.path().join("elsewhere");
        make(&elsewhere, 0o700).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(Private::open(&socket).is_err());
    }

    #[test]
    fn a_shared_socket_is_the_same_one_under_two_names() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mgbd.sock");
        let second = folder.path().join("clients/mgbd.sock");
        for _ in 0..2 {
            let _ = std::fs::remove_file(&socket);
            let listener = UnixListener::bind(&socket).unwrap();
            // Twice, as the next mgbd does.
            share(&socket, 0o755).unwrap();
            share(&socket, 0o755).unwrap();
            let _client = UnixStream::connect(&second).unwrap();
            listener.accept().unwrap();
        }
        let names = std::fs::read_dir(folder.path().join("clients")).unwrap();
        assert_eq!(names.count(), 1);
        unshare(&socket, (0, 0));
        assert!(second.exists());
        unshare(&socket, file_at(&socket).unwrap());
        assert!(!second.exists());
    }

    #[test]
    fn nothing_is_made_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("mgbd.sock");
        let elsewhere = folder.path().join("elsewhere");
        make(&elsewhere, 0o700).unwrap();
        symlink(&elsewhere, folder.path().join("clients")).unwrap();
        assert!(make_for_clients(&socket, "mps", 0o755).is_err());
        std::fs::remove_file(folder.path().join("clients")).unwrap();
        make_own(&folder.path().join("clients"), 0o755).unwrap();
        symlink(&elsewhere, folder.path().join("clients/mps")).unwrap();
        assert!(make_for_clients(&socket, "mps", 0o755).is_err());
        assert_eq!(std::fs::metadata(&elsewhere).unwrap().mode() & 0o777, 0o700);
    }
}
