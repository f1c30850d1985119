//! Where `mgbd` listens.

use std::path::{Path, PathBuf};

/// The socket: `$MGB_SOCKET`, else `$XDG_RUNTIME_DIR/mgb/mgbd.sock`, else
/// `/tmp/mgb-<uid>/mgbd.sock`.
pub fn socket_path() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = set("MGB_SOCKET") {
        return PathBuf::from(path);
    }
    if let Some(runtime) = set("XDG_RUNTIME_DIR") {
        return Path::new(&runtime).join("mgb/mgbd.sock");
    }
    let uid = rustix::process::getuid().as_raw();
    PathBuf::from(format!("/tmp/mgb-{uid}/mgbd.sock"))
}

/// The lock file that the `mgbd` of a socket holds as long as it runs; it
/// contains its pid.
pub fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
