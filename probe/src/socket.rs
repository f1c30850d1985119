//! Where `mgbd` listens.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// Where an `mgbd` listens that serves several users of the node.
pub const NODE_SOCKET: &str = "/run/mgb/mgbd.sock";

/// Its other name, in the folder that containers have of it.
pub const NODE_CLIENTS_SOCKET: &str = "/run/mgb/clients/mgbd.sock";

/// The socket: `$MGB_SOCKET`, else [`NODE_SOCKET`] or its name for containers where there is one, else
/// `$XDG_RUNTIME_DIR/mgb/mgbd.sock`, else `/tmp/mgb-<uid>/mgbd.sock`.
pub fn socket_path() -> PathBuf {
    if let Some(path) = set("MGB_SOCKET") {
        return PathBuf::from(path);
    }
    // The second alone is in containers: `podman exec` has none of the variables that the container was
    // given.
    let nodes = [NODE_SOCKET, NODE_CLIENTS_SOCKET].map(Path::new);
    if let Some(socket) = nodes.into_iter().find(|socket| socket.exists()) {
        return socket.to_owned();
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

/// The process at the other end of a UNIX socket, and its user. Asked for as plain numbers: the kernel says
/// pid 0 for a process that is not visible here.
pub fn peer(socket: impl AsFd) -> Option<libc::ucred> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes of plain data to `peer`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    (done == 0).then_some(peer)
}
