//! One look at mgbd's node view, by a connection of its own: mgbd samples the node far more often while
//! somebody stays connected.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use mgb_command::daemon;
use mgb_probe::Client;
use mgb_probe::view::NodeView;

/// How long mgbd has for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the mgbd of this socket, for who looks or speaks for a person.
///
/// # Errors
/// None answers there.
pub fn connect(socket: &Path) -> Result<Client> {
    Client::observe_within(socket, HELLO_TIMEOUT).map_err(daemon::way_out)
}

/// The node as the mgbd of this socket sees it now.
///
/// # Errors
/// None answers there, or its view cannot be read.
pub fn look(socket: &Path) -> Result<NodeView> {
    Ok(connect(socket)?.status()?)
}
