//! Which processes live: each process holds a POSIX record lock on one byte of the state file per slot it
//! owns. The kernel releases it when the process ends or executes another program, however it
//! ends, before anybody can learn of the end; the lock is not inherited by `fork`; and it is
//! visible across pid namespaces, where a pid and its start time are not. The bytes locked lie far
//! behind the file's contents, except for byte 0, which is the lock on the contents.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Byte whose lock guards the file's contents.
pub const CONTENTS: i64 = 0;

/// Byte whose lock says that the owner of `slot` lives.
pub fn slot_byte(slot: usize) -> i64 {
    (1 << 40) + slot as i64
}

fn request(kind: libc::c_int, byte: i64) -> libc::flock {
    // SAFETY: `flock` is plain integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte;
    lock.l_len = 1;
    lock
}

fn fcntl(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open, and `lock` outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, lock as *mut libc::flock) } != -1 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits for the lock on `byte`.
pub fn wait(file: &File, byte: i64) -> io::Result<()> {
    fcntl(file, libc::F_SETLKW, &mut request(libc::F_WRLCK, byte))
}

/// Takes the lock on `byte` if no other process has it.
pub fn try_take(file: &File, byte: i64) -> bool {
    fcntl(file, libc::F_SETLK, &mut request(libc::F_WRLCK, byte)).is_ok()
}

/// Gives the lock on `byte` back.
pub fn release(file: &File, byte: i64) {
    // Unlocking a byte cannot fail but for lack of kernel memory; the lock then ends with the process.
    let _ = fcntl(file, libc::F_SETLK, &mut request(libc::F_UNLCK, byte));
}

/// Whether another process has the lock on `byte`.
pub fn held_elsewhere(file: &File, byte: i64) -> bool {
    let mut lock = request(libc::F_WRLCK, byte);
    // On failure the owner counts as living: charging too much beats overcommitting.
    fcntl(file, libc::F_GETLK, &mut lock).is_err() || lock.l_type != libc::F_UNLCK as libc::c_short
}
