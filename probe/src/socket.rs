//! Where `mgbd` listens.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where an `mgbd` listens that serves several users of the node.
pub const NODE_SOCKET: &str = "/run/mgb/mgbd.sock";

/// The socket: `$MGB_SOCKET`, else [`NODE_SOCKET`] where there is one, else `$XDG_RUNTIME_DIR/mgb/mgbd.sock`,
/// else `/tmp/mgb-<uid>/mgbd.sock`.
pub fn socket_path() -> PathBuf {
    if let Some(path) = set("MGB_SOCKET") {
        return PathBuf::from(path);
    }
    if Path::new(NODE_SOCKET).exists() {
        return PathBuf::from(NODE_SOCKET);
    }
    if let Some(runtime) = set("XDG_RUNTIME_DIR") {
        return Path::new(&runtime).join("mgb/mgbd.sock");
    }
    let uid = rustix::process::getuid().as_raw();
    PathBuf::from(format!("/tmp/mgb-{uid}/mgbd.sock"))
}

/// Where an `mgbd` listens that is to serve several users: `$MGB_SOCKET`, else [`NODE_SOCKET`].
pub fn node_socket_path() -> PathBuf {
    set("MGB_SOCKET").map_or_else(|| PathBuf::from(NODE_SOCKET), PathBuf::from)
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The lock file that the `mgbd` of a socket holds as long as it runs; it
/// contains its pid.
pub fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
