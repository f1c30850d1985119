//! The folder of mgbd's socket, shared memory, and limits.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use mgb_probe::socket_path;
use mgb_probe::trust::Folder;
use rustix::fs::{Access, MemfdFlags, SealFlags, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::super::folder::FolderFacts;
use super::super::host::HostFacts;

const SHM: &str = "/dev/shm";

/// The folder of mgbd's socket.
pub fn folder() -> FolderFacts {
    let socket = std::path::absolute(socket_path()).unwrap_or_else(|_| socket_path());
    let wanted = socket.parent().unwrap_or(Path::new("/")).to_owned();
    let there = wanted.ancestors().find(|folder| folder.exists());
    let folder = there.map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let kind = fs::symlink_metadata(&socket).ok().map(|file| file.file_type());
    FolderFacts {
        exists: folder == wanted,
        fault: Folder::of_own(&socket).err().map(|why| why.to_string()),
        writable: access(&folder, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        room: room(&folder),
        in_the_way: kind.is_some_and(|kind| !kind.is_socket()),
        socket,
        folder,
    }
}

/// Bytes and files that still fit. A file system without a number of files says none at all.
fn room(folder: &Path) -> Option<(u64, u64)> {
    let system = statvfs(folder).ok()?;
    let files = if system.f_files == 0 {
        u64::MAX
    } else {
        system.f_favail
    };
    Some((system.f_bavail.saturating_mul(system.f_frsize), files))
}

/// Shared memory and limits.
pub fn look() -> HostFacts {
    let shm = Path::new(SHM);
    HostFacts {
        shm: shm.is_dir().then(|| {
            let writable = access(shm, Access::WRITE_OK | Access::EXEC_OK).is_ok();
            (writable, room(shm).map_or(u64::MAX, |(bytes, _)| bytes))
        }),
        memfd: memfd().err().map(|error| error.to_string()),
        addresses: getrlimit(Resource::As).current,
        locked: getrlimit(Resource::Memlock).current,
        files: getrlimit(Resource::Nofile).maximum,
    }
}

/// As a client makes its channel.
fn memfd() -> rustix::io::Result<()> {
    let memory = rustix::fs::memfd_create("mgb-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}
