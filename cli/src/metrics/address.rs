//! Where metrics are served: a port, or a socket in the file system.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// An address of the machine, with a port.
    Port(SocketAddr),
    /// A socket in the file system, of this name.
    Socket(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: is to be followed by the path of a socket".to_owned());
            }
            return Ok(ListenAddress::Socket(path.into()));
        }
        let found = match text.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}").parse().ok(),
            None => text.to_socket_addrs().ok().and_then(|mut all| all.next()),
        };
        found
            .map(ListenAddress::Port)
            .ok_or_else(|| "neither HOST:PORT, :PORT nor unix:PATH".to_owned())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Port(address) => write!(f, "http://{address}/metrics"),
            ListenAddress::Socket(path) => write!(f, "/metrics on the socket {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_sockets_are_told_apart() {
        let port = |text: &str| text.parse::<ListenAddress>();
        let at = |text: &str| Ok(ListenAddress::Port(text.parse().unwrap()));
        assert_eq!(port("127.0.0.1:9401"), at("127.0.0.1:9401"));
        assert_eq!(port("[::1]:9401"), at("[::1]:9401"));
        assert_eq!(port(":9401"), at("0.0.0.0:9401"));
        assert_eq!(port("unix:/run/m"), Ok(ListenAddress::Socket("/run/m".into())));
        for wrong in ["", "unix:", ":", "9401", "127.0.0.1:70000", "127.0.0.1", "/run/m"] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }
}
