//! The state file: where it lies, and opening it so that two first openers agree.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::layout::{Layout, MAGIC};
use super::lease;
use crate::config::spec::{Canonical, Spec};

/// Why there is no shared state.
#[derive(Debug, thiserror::Error)]
#[error("failed to open the devices' shared state {path}: {source}; set SOFTGPU_STATE to a file of your own")]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

/// The file for these devices: `$SOFTGPU_STATE`, else one per user and configuration in
/// `/dev/shm`, `$XDG_RUNTIME_DIR` or `/tmp`, whichever is there first.
pub fn path(devices: &[Spec]) -> PathBuf {
    if let Some(path) = std::env::var_os("SOFTGPU_STATE").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let folder = [
        Some("/dev/shm".into()),
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
    ]
    .into_iter()
    .flatten()
    .find(|folder| folder.is_dir())
    .unwrap_or_else(std::env::temp_dir);
    let user = rustix::process::geteuid().as_raw();
    folder.join(format!("softgpu-{user}-{:016x}", configuration(devices)))
}

fn configuration(devices: &[Spec]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (MAGIC, Canonical(devices).to_string()).hash(&mut hasher);
    hasher.finish()
}

/// Changes with the configuration and with each boot: clocks of another boot mean nothing.
fn fingerprint(devices: &[Spec]) -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (configuration(devices), boot).hash(&mut hasher);
    hasher.finish()
}

/// An open state file and its mapping, which stays for the life of the process.
pub struct Mapped {
    /// Open for reading and writing.
    pub file: File,
    /// The layout that is mapped.
    pub layout: &'static Layout,
    /// Device and inode of the file, to notice when the descriptor was closed under us.
    pub identity: (u64, u64),
}

/// Opens the file, making or renewing it where needed.
pub fn open(path: &Path, devices: &[Spec]) -> Result<Mapped, OpenError> {
    let fail = |source| OpenError {
        path: path.to_owned(),
        source,
    };
    let file = open_file(path).map_err(fail)?;
    lease::wait(&file, lease::CONTENTS).map_err(fail)?;
    let layout = prepare(&file, devices);
    lease::release(&file, lease::CONTENTS);
    let layout = layout.map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    Ok(Mapped {
        file,
        layout,
        identity: (metadata.dev(), metadata.ino()),
    })
}

/// Opens the bare file again, after something closed the descriptor.
pub fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    let metadata = file.metadata()?;
    // Where several users share software GPUs, root has made the file. In a container with a user namespace
    // the node's root has no number, and neither have other users, who may make files in `/tmp` and its like.
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = [0, own].contains(&metadata.uid())
        || is_nobodys(metadata.uid()) && !is_for_everybodys_files(path.parent());
    if !metadata.is_file() || !is_trusted {
        return Err(io::Error::other("not a plain file of this user or of root"));
    }
    Ok(file)
}

/// Whether a number stands for users that have none in this process's user namespace.
fn is_nobodys(uid: u32) -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let has_all_users = read("/proc/self/uid_map")
        .trim_end()
        .ends_with(&u32::MAX.to_string());
    !has_all_users && read("/proc/sys/kernel/overflowuid").trim() == uid.to_string()
}

/// Whether all users may make files in a folder that others may not remove: one that is sticky and writable
/// for all.
fn is_for_everybodys_files(folder: Option<&Path>) -> bool {
    let named = folder.filter(|folder| !folder.as_os_str().is_empty());
    let metadata = std::fs::metadata(named.unwrap_or(Path::new(".")));
    metadata.map_or(true, |metadata| metadata.mode() & 0o1002 == 0o1002)
}

fn prepare(file: &File, devices: &[Spec]) -> io::Result<&'static Layout> {
    let size = size_of::<Layout>();
    let fresh = file.metadata()?.len() < size as u64;
    if fresh {
        file.set_len(size as u64)?;
    }
    // SAFETY: a new shared mapping of a file that is at least as long and is never shortened by
    // softgpu; every field is an atomic, for which any bytes are a value.
    let layout = unsafe {
        let address = rustix::mm::mmap(
            std::ptr::null_mut(),
            size,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
            file,
            0,
        )?;
        &*address.cast::<Layout>()
    };
    let fingerprint = fingerprint(devices);
    let valid = layout.magic.load(Relaxed) == MAGIC;
    if !valid || layout.fingerprint.load(Relaxed) != fingerprint {
        if valid && anybody(file, layout) {
            return Err(io::Error::other(
                "living processes use it with other SOFTGPU_DEVICES",
            ));
        }
        clear(file, layout, fingerprint)?;
    }
    Ok(layout)
}

fn anybody(file: &File, layout: &Layout) -> bool {
    let used = layout.slots_used.load(Relaxed) as usize;
    (0..used.min(super::layout::SLOTS)).any(|slot| lease::held_elsewhere(file, lease::slot_byte(slot)))
}

/// Zeroes the contents. Killed half-way, the magic number is missing and the next one does it again.
fn clear(file: &File, layout: &Layout, fingerprint: u64) -> io::Result<()> {
    layout.magic.store(0, Release);
    let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, mode, 0, size_of::<Layout>() as u64)?;
    layout.fingerprint.store(fingerprint, Relaxed);
    layout.magic.store(MAGIC, Release);
    Ok(())
}
