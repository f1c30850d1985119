//! The options of `mgbd`: of its command line and of a file of settings, which is read again while it runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use mgb_interface::{Policy, Queue};
use mgb_probe::byte_size;
use mgb_scheduler::daemon::{self, ChangedSettings, LiveSettings, OverheadLimit, RereadSettings};
use mgb_scheduler::eviction::EvictionRule;
use mgb_scheduler::{Users, broker, holder, settings};

/// Shares the GPUs of this node among programs built with MGB.
///
/// Stays in the foreground; stops on SIGTERM and SIGINT. Programs that run go on
/// with what they were granted; their MPS ends with the last of them. Killed in any other way, SIGUSR1 among
/// them, it is started again while programs need it, and those that wait notice nothing.
#[derive(Debug, Parser)]
#[command(
    name = "mgbd",
    version = env!("VERSION_TEXT"),
    args_override_self = true,
    after_help = "Exit codes: 0 stopped or idle, 2 bad command line, settings or quotas, 3 \
    another mgbd runs at the socket, 4 no GPU, 5 a system call that it may not make, 1 anything else. MGBD_LOG sets what is logged, such as \
    debug or mgb_scheduler=trace."
)]
pub(crate) struct Options {
    /// Take settings from this file too: options by their long names, as in `serve = "all"`; those of the
    /// command line go before. Read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Check the settings, print them as a file of settings, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Print the manual page and end
    #[arg(long, exclusive = true)]
    pub(crate) man: bool,
    /// Where to listen; its folder is made for those who are served [default: where programs look, which for
    /// several users is /run/mgb/mgbd.sock]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Whom to serve: own, the user that runs mgbd; group:NAME; or all. Users see and order their own
    /// programs only; root and who runs mgbd those of all
    #[arg(long, value_name = "USERS", default_value_t = Users::Own)]
    pub(crate) serve: Users,
    /// What users and groups may have at once, in this file (docs/SERVICE.md); read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) quotas: Option<PathBuf>,
    /// Whose subordinate users are, as subuid(5) has it: they are charged to those
    #[arg(long, value_name = "FILE", default_value = daemon::SUBORDINATES)]
    pub(crate) subuid: PathBuf,
    #[arg(
        help = concat!("Who gets what: ", mgb_interface::policy_names!()),
        long,
        value_name = "NAME",
        default_value_t = Policy::Mgb
    )]
    pub(crate) policy: Policy,
    /// Who goes first: in-order, backfill, shortest, largest, or by deadlines edf (the earliest) or laxity
    /// (the least time to spare) [default: the policy's own order, largest for mgb, else backfill]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Queue>,
    /// Let later tasks pass the first in the queue for so long, in seconds
    #[arg(long, value_name = "SECS", default_value_t = broker::PASSED_TIMEOUT.as_secs())]
    pub(crate) patience: u64,
    /// End when there was no client for so long, in seconds
    #[arg(long, value_name = "SECS")]
    pub(crate) idle_exit: Option<u64>,
    /// Bytes that tasks and their contexts may take together on each GPU, such as 16GiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub(crate) capacity: Option<u64>,
    /// Bytes that a process's context takes on a GPU
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub(crate) context: Option<u64>,
    /// Keep what programs took in this file, for the mgbd that is started next [default: beside the socket,
    /// with .past]
    #[arg(long, value_name = "FILE")]
    pub(crate) past: Option<PathBuf>,
    /// Keep what programs take of the GPUs in this folder, for mgb history [default: usage in the folder that
    /// systemd gives mgbd.service, else beside the socket, with .usage]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) usage: Option<PathBuf>,
    /// Leave idle memory on its GPU although others wait for room
    #[arg(long)]
    pub(crate) no_swap: bool,
    /// Whose idle memory leaves where others wait for room: pays, whose copies are worth it, or flexgpu,
    /// whose memory is used least often while a kernel hides the copy
    #[arg(long, value_name = "RULE", default_value_t = EvictionRule::Pays, conflicts_with = "no_swap")]
    pub(crate) evict_by: EvictionRule,
    /// Leave tasks on their GPUs although they could go on, on others
    #[arg(long)]
    pub(crate) no_move: bool,
    /// Move a task at random every so many milliseconds, for tests
    #[arg(long, value_name = "MS", hide = true)]
    pub(crate) move_every: Option<u64>,
    /// Leave the shares of programs on a GPU to MPS, also where one starves beside others
    #[arg(long)]
    pub(crate) no_fair: bool,
    /// Hold launches on GPUs that change at random every so many milliseconds, for tests
    #[arg(long, value_name = "MS", hide = true)]
    pub(crate) hold_every: Option<u64>,
    /// Bytes of host memory for what leaves the GPUs, such as 64GiB [default: what the host has to spare]
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub(crate) swap_memory: Option<u64>,
    /// Bytes that a process may have on a GPU beyond what it was granted, by the driver's word: libraries, or
    /// more than it said. The log tells of one that has more
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub(crate) overhead_limit: Option<u64>,
    /// End such a process: by SIGTERM, after 5 s by SIGKILL. Under MPS not one that was placed as a whole,
    /// which would take its neighbours with it
    #[arg(long, requires = "overhead_limit")]
    pub(crate) end_beyond: bool,
    /// Go on using GPUs that fail by the driver's word (Xids, ECC errors, row remapping), which are drained
    /// otherwise, and only say so
    #[arg(long)]
    pub(crate) no_health_drain: bool,
    /// Keep so many percent of each GPU's multiprocessors from batch programs that begin while a latency
    /// program is there; what runs keeps what it has
    #[arg(long, value_name = "PERCENT", default_value_t = daemon::LATENCY_RESERVE, value_parser = clap::value_parser!(u32).range(0..=50))]
    pub(crate) latency_reserve: u32,
    /// Start no MPS control daemon
    #[arg(long)]
    pub(crate) no_mps: bool,
    /// Stay ended when killed, also while programs need mgbd; as under systemd, which starts it again by
    /// itself
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// Started again, for programs of the mgbd before: ends when they have, unless --idle-exit says otherwise
    #[arg(long = holder::AGAIN, hide = true)]
    pub(crate) again: bool,
    /// Let mgbd's loop make any system call, not only those that it needs
    #[arg(long)]
    pub(crate) no_seccomp: bool,
    /// Append the log to this file instead of writing it to stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// The options, and what clap has found of them.
pub(crate) type Parsed = (Options, ArgMatches);

fn parsed(arguments: impl Iterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    let matches = Options::command().try_get_matches_from(arguments)?;
    Ok((Options::from_arg_matches(&matches)?, matches))
}

/// What is wrong with a file of settings.
enum WrongSettings {
    /// It cannot be read.
    File(settings::SettingsError),
    /// There are no such options.
    Options(clap::Error),
}

/// The options of this file, and those of the command line, which go before them.
fn with_settings(file: &Path) -> Result<Parsed, WrongSettings> {
    let more = settings::arguments(file).map_err(WrongSettings::File)?;
    let mut own = std::env::args_os();
    let program = own.next().into_iter();
    parsed(program.chain(more).chain(own)).map_err(WrongSettings::Options)
}

/// The options of the command line, and those of the file that it names before them; and as clap has them.
pub(crate) fn options() -> Parsed {
    let alone = parsed(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let Some(file) = &alone.0.settings else {
        return alone;
    };
    with_settings(file).unwrap_or_else(|wrong| match wrong {
        WrongSettings::File(error) => {
            mgb_stderr::say!("mgbd: {error}");
            std::process::exit(2);
        }
        WrongSettings::Options(error) => {
            mgb_stderr::say!("mgbd: with the settings in {}:", file.display());
            error.exit()
        }
    })
}

/// Settings that are taken over while mgbd runs.
const LIVE: [&str; 7] = [
    "patience",
    "no-move",
    "swap-memory",
    "no-health-drain",
    "overhead-limit",
    "end-beyond",
    "latency-reserve",
];

pub(crate) fn live(options: &Options) -> LiveSettings {
    LiveSettings {
        patience: Duration::from_secs(options.patience),
        moves: !options.no_move,
        swap_memory: options.swap_memory,
        drains_failing: !options.no_health_drain,
        overhead_limit: options.overhead_limit.map(|bytes| OverheadLimit {
            bytes,
            ends: options.end_beyond,
        }),
        latency_reserve: options.latency_reserve,
    }
}

/// How settings are read again, where they are in a file.
pub(crate) fn reread(options: &Options, matches: &ArgMatches) -> Option<RereadSettings> {
    let file = options.settings.clone()?;
    let at_start = settings::all(&Options::command(), matches);
    let reread = move || {
        let (options, matches) = with_settings(&file).map_err(|wrong| match wrong {
            WrongSettings::File(error) => error.to_string(),
            WrongSettings::Options(error) => {
                // The rest is how options are used.
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                format!("{}: {}", file.display(), first.trim_start_matches("error: "))
            }
        })?;
        let now = settings::all(&Options::command(), &matches);
        let differs = at_start
            .iter()
            .zip(&now)
            .filter(|(before, now)| before.value != now.value && !LIVE.contains(&&*now.name));
        Ok(ChangedSettings {
            live: live(&options),
            others: differs.map(|(_, now)| now.name.clone()).collect(),
        })
    };
    Some(RereadSettings(Arc::new(reread)))
}
