//! The folder of mgbd's socket: whether mgbd can listen there, and keep its log and what it learns.

use std::path::PathBuf;

use mgb_command::check_result::Finding;
use mgb_probe::byte_size::Bytes;

const NAME: &str = "socket folder";
/// Bytes that a UNIX socket's path has to be shorter than.
const MAX_SOCKET_PATH: usize = 108;
/// Bytes that mgbd's log and memory may take in a while.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// What was seen of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderFacts {
    /// The socket's path.
    pub socket: PathBuf,
    /// The folder, or the nearest one above it that exists.
    pub folder: PathBuf,
    /// Whether the folder itself exists.
    pub exists: bool,
    /// Why mgbd does not listen there.
    pub fault: Option<String>,
    /// Whether this user can make files in it.
    pub writable: bool,
    /// Bytes and files that still fit; `None` where the system does not say.
    pub room: Option<(u64, u64)>,
    /// Something else lies where the socket belongs.
    pub in_the_way: bool,
}

/// Checks the facts about the folder.
pub fn check(facts: &FolderFacts) -> Vec<Finding> {
    let (folder, socket) = (facts.folder.display(), facts.socket.display());
    let elsewhere = "set MGB_SOCKET to a path in a folder of yours";
    let problem = |text: String| vec![Finding::problem(NAME, text).way_out(elsewhere)];
    if facts.socket.as_os_str().len() >= MAX_SOCKET_PATH {
        return problem(format!(
            "{socket} is too long a path for a socket ({MAX_SOCKET_PATH} bytes)"
        ));
    }
    if facts.in_the_way {
        return vec![
            Finding::problem(NAME, format!("{socket} is there and is no socket"))
                .way_out("remove it, or set MGB_SOCKET to another path"),
        ];
    }
    if let Some(why) = facts.fault.as_ref().filter(|_| facts.exists) {
        return problem(format!("{folder} {why}: mgbd does not listen there"));
    }
    if !facts.writable {
        return problem(format!("this user cannot write in {folder}"));
    }
    match facts.room {
        Some((bytes, _)) if bytes < MIN_FREE_BYTES => problem(format!(
            "{folder} is on a full disk: {} are left for mgbd's log and what it learns",
            Bytes(bytes)
        )),
        Some((_, 0)) => problem(format!("no more files can be made in {folder}")),
        _ if facts.exists => vec![Finding::ok(NAME, folder.to_string())],
        _ => vec![Finding::ok(NAME, format!("is made in {folder} when mgbd starts"))],
    }
}

#[cfg(test)]
mod tests {
    use mgb_command::check_result::Severity::{Ok as Fine, Problem};
    use mgb_command::check_result::expect;

    use super::*;

    fn facts() -> FolderFacts {
        FolderFacts {
            socket: "/f/mgbd.sock".into(),
            folder: "/f".into(),
            exists: true,
            writable: true,
            room: Some((1 << 30, 1000)),
            ..FolderFacts::default()
        }
    }

    #[test]
    fn a_folder_of_ones_own_is_fine() {
        expect(&check(&facts()), "socket folder", Fine, &["/f"]);
        let new = FolderFacts {
            exists: false,
            fault: Some("does not exist".to_owned()),
            ..facts()
        };
        expect(&check(&new), "socket folder", Fine, &["is made in /f"]);
        let unknown = FolderFacts {
            room: None,
            ..facts()
        };
        expect(&check(&unknown), "socket folder", Fine, &[]);
    }

    #[test]
    fn where_mgbd_cannot_listen_is_a_problem() {
        for (facts, words) in [
            (
                FolderFacts {
                    fault: Some("belongs to uid 7".to_owned()),
                    ..facts()
                },
                ["/f belongs to uid 7", "MGB_SOCKET"],
            ),
            (
                FolderFacts {
                    writable: false,
                    ..facts()
                },
                ["cannot write in /f", "MGB_SOCKET"],
            ),
            (
                FolderFacts {
                    room: Some((4096, 1000)),
                    ..facts()
                },
                ["full disk", "4.0 KiB"],
            ),
            (
                FolderFacts {
                    room: Some((1 << 30, 0)),
                    ..facts()
                },
                ["no more files", "/f"],
            ),
            (
                FolderFacts {
                    in_the_way: true,
                    ..facts()
                },
                ["/f/mgbd.sock is there", "remove it"],
            ),
            (
                FolderFacts {
                    socket: format!("/{}", "s".repeat(MAX_SOCKET_PATH)).into(),
                    ..facts()
                },
                ["too long", "MGB_SOCKET"],
            ),
        ] {
            expect(&check(&facts), "socket folder", Problem, &words);
        }
    }
}
