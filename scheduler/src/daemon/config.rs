//! How `mgbd` is to run.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mgb_interface::{Policy, Queue};

use crate::broker::PASSED_TIMEOUT;
use crate::eviction::EvictionRule;
use crate::holder::Again;
use crate::users::Users;

/// The file of subordinate users, where none is named.
pub const SUBORDINATES: &str = "/etc/subuid";

/// What is too much, and what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverheadLimit {
    /// Bytes that a process may have on a GPU beside what it was granted and an ordinary context.
    pub bytes: u64,
    /// Whether a process that has more is ended; else the log tells of it.
    pub ends: bool,
}

/// The percentage of the multiprocessors that is kept from batch programs beside latency programs.
pub const LATENCY_RESERVE: u32 = 10;

/// Settings that may change while `mgbd` runs, each as in [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSettings {
    /// How long the first in the queue may be passed by others.
    pub patience: Duration,
    /// Whether tasks that may go on elsewhere are moved between GPUs.
    pub moves: bool,
    /// Bytes of evicted memory that the host may hold at once; `None`: what it has to spare.
    pub swap_memory: Option<u64>,
    /// Whether GPUs that fail by the driver's word are drained from now on.
    pub drains_failing: bool,
    /// How much more than it was granted a process may have; `None`: nobody looks.
    pub overhead_limit: Option<OverheadLimit>,
    /// The percentage of multiprocessors that is kept from batch programs that begin from now on.
    pub latency_reserve: u32,
}

/// What settings say that were read again.
#[derive(Clone, Debug)]
pub struct ChangedSettings {
    /// Those that hold at once.
    pub live: LiveSettings,
    /// The names of others that say something else than at the start.
    pub others: Vec<String>,
}

/// Reads the settings again, or says what is wrong with them. Called by a thread beside the loop.
#[derive(Clone)]
pub struct RereadSettings(pub Arc<dyn Fn() -> Result<ChangedSettings, String> + Send + Sync>);

impl std::fmt::Debug for RereadSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RereadSettings")
    }
}

/// The settings of an `mgbd`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub socket: PathBuf,
    /// The socket, listening already, where systemd has made it.
    pub activated: Option<Arc<OwnedFd>>,
    /// Whom it serves.
    pub users: Users,
    /// The file that says whose subordinate users are.
    pub subordinates: PathBuf,
    /// The file of what users and groups may have; `None`: nobody is limited.
    pub quotas: Option<PathBuf>,
    /// Becomes readable when that file and settings are to be read again, with a byte for each time.
    pub reload: Option<Arc<OwnedFd>>,
    /// How settings are read again; `None`: they are not in a file.
    pub reread: Option<RereadSettings>,
    /// The policy, which decides what is granted.
    pub policy: Policy,
    /// The order in which requests are served; as [`Policy::serves`] has it.
    pub queue: Queue,
    /// How long the first in the queue may be passed by others.
    pub patience: Duration,
    /// By which rule idle memory is evicted for requests that wait; `None`: it is not.
    pub evicts: Option<EvictionRule>,
    /// Whether tasks that may go on elsewhere are moved between GPUs.
    pub moves: bool,
    /// For tests: they are moved at random, one so often.
    pub shuffles: Option<Duration>,
    /// Whether batch programs that starve beside others on their GPU are helped.
    pub fair: bool,
    /// How often the GPUs change, at random, on which batch programs are held: for tests.
    pub shakes: Option<Duration>,
    /// Bytes of evicted memory that the host may hold at once; `None`: what it has to spare.
    pub swap_memory: Option<u64>,
    /// Whether GPUs that fail by the driver's word are drained.
    pub drains_failing: bool,
    /// How much more than it was granted a process may have; `None`: nobody looks.
    pub overhead_limit: Option<OverheadLimit>,
    /// Ends when there was no client for so long.
    pub idle_exit: Option<Duration>,
    /// Has an MPS control daemon of its own.
    pub mps: bool,
    /// The percentage of each GPU's multiprocessors that is kept from batch programs which begin while a
    /// latency program is there.
    pub latency_reserve: u32,
    /// The program of `mgbd`, to be run as the holder of what outlives this one (see [`crate::holder`]);
    /// `None`: nothing does, and there is no MPS.
    pub holder: Option<PathBuf>,
    /// How the holder starts this `mgbd` again where it ends without a word while programs need it; `None`:
    /// it does not. A holder that runs already knows only whether it is to.
    pub again: Option<Again>,
    /// The line to the holder that has started this `mgbd`.
    pub holder_line: Option<Arc<OwnedFd>>,
    /// Whether the loop may make those system calls alone that it needs: see [`crate::seccomp`].
    pub confines: bool,
    /// MPS's control program.
    pub mps_control: PathBuf,
    /// The file of what programs took before, read and written; it need not be there.
    pub past: PathBuf,
    /// The folder of what programs take, by user and day: see [`mgb_interface::usage`].
    pub usage: PathBuf,
}

impl Config {
    /// The usual way to run at a socket.
    pub fn new(socket: PathBuf) -> Config {
        let usage = mgb_interface::usage::usual_folder(&socket);
        let mut past = socket.as_os_str().to_owned();
        past.push(".past");
        Config {
            socket,
            activated: None,
            users: Users::Own,
            subordinates: SUBORDINATES.into(),
            quotas: None,
            reload: None,
            reread: None,
            policy: Policy::Mgb,
            queue: Queue::Largest,
            patience: PASSED_TIMEOUT,
            evicts: Some(EvictionRule::Pays),
            moves: true,
            shuffles: None,
            fair: true,
            shakes: None,
            swap_memory: None,
            drains_failing: true,
            overhead_limit: None,
            idle_exit: None,
            mps: true,
            latency_reserve: LATENCY_RESERVE,
            holder: None,
            again: None,
            holder_line: None,
            confines: true,
            mps_control: mgb_interface::mps::MPS_CONTROL.into(),
            past: past.into(),
            usage,
        }
    }
}
