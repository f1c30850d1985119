//! `mgbd`: the daemon that owns a node's GPUs for MGB. See
//! [`mgb_scheduler::daemon`].
//!
//! Exit codes: 0 after SIGTERM or SIGINT, or when idle for long enough; 2 for a
//! command line, settings or quotas that cannot be understood; 3 if another `mgbd` already runs at
//! the socket; 4 if there is no GPU to share; 5 if it was about to make a system call that it may not make
//! ([`mgb_scheduler::seccomp`]); 1 for everything else.

use std::backtrace::BacktraceStatus;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use mgb_interface::{Policy, Queue};
use mgb_probe::byte_size;
use mgb_scheduler::daemon::{self, Config, DaemonError, ListenError, OverheadLimit};
use mgb_scheduler::eviction::EvictionRule;
use mgb_scheduler::holder::Again;
use mgb_scheduler::log::{Flush, Log};
use mgb_scheduler::node::bounded::Bounded;
use mgb_scheduler::node::nvml::{DiscoverError, Limits, NvmlNode};
use mgb_scheduler::quota::file::Quotas;
use mgb_scheduler::{Users, broker, holder, log, seccomp, settings};
use tracing_subscriber::EnvFilter;

/// How long one that was started again stays when nobody needs it any more.
const LINGERING: Duration = Duration::from_secs(60);

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
struct Options {
    /// Take settings from this file too: options by their long names, as in `serve = "all"`; those of the
    /// command line go before
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Check the settings, print them as a file of settings, and end
    #[arg(long)]
    check: bool,
    /// Print the manual page and end
    #[arg(long, exclusive = true)]
    man: bool,
    /// Where to listen; its folder is made for those who are served [default: where programs look, which for
    /// several users is /run/mgb/mgbd.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Whom to serve: own, the user that runs mgbd; group:NAME; or all. Users see and order their own
    /// programs only; root and who runs mgbd those of all
    #[arg(long, value_name = "USERS", default_value_t = Users::Own)]
    serve: Users,
    /// What users and groups may have at once, in this file (docs/SERVICE.md); read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    quotas: Option<PathBuf>,
    /// Whose subordinate users are, as subuid(5) has it: they are charged to those
    #[arg(long, value_name = "FILE", default_value = daemon::SUBORDINATES)]
    subuid: PathBuf,
    #[arg(
        help = concat!("Who gets what: ", mgb_interface::policy_names!()),
        long,
        value_name = "NAME",
        default_value_t = Policy::Mgb
    )]
    policy: Policy,
    /// Who goes first: in-order, backfill, shortest, largest, or by deadlines edf (the earliest) or laxity
    /// (the least time to spare) [default: the policy's own order, largest for mgb, else backfill]
    #[arg(long, value_name = "NAME")]
    queue: Option<Queue>,
    /// Let later tasks pass the first in the queue for so long, in seconds
    #[arg(long, value_name = "SECS", default_value_t = broker::PASSED_TIMEOUT.as_secs())]
    patience: u64,
    /// End when there was no client for so long, in seconds
    #[arg(long, value_name = "SECS")]
    idle_exit: Option<u64>,
    /// Bytes that tasks and their contexts may take together on each GPU, such as 16GiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    capacity: Option<u64>,
    /// Bytes that a process's context takes on a GPU
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    context: Option<u64>,
    /// Keep what programs took in this file, for the mgbd that is started next [default: beside the socket,
    /// with .past]
    #[arg(long, value_name = "FILE")]
    past: Option<PathBuf>,
    /// Leave idle memory on its GPU although others wait for room
    #[arg(long)]
    no_swap: bool,
    /// Whose idle memory leaves where others wait for room: pays, whose copies are worth it, or flexgpu,
    /// whose memory is used least often while a kernel hides the copy
    #[arg(long, value_name = "RULE", default_value_t = EvictionRule::Pays, conflicts_with = "no_swap")]
    evict_by: EvictionRule,
    /// Leave tasks on their GPUs although they could go on, on others
    #[arg(long)]
    no_move: bool,
    /// Move a task at random every so many milliseconds, for tests
    #[arg(long, value_name = "MS", hide = true)]
    move_every: Option<u64>,
    /// Leave the shares of programs on a GPU to MPS, also where one starves beside others
    #[arg(long)]
    no_fair: bool,
    /// Let two programs that use a whole GPU in phases have it by turns, so that each computes while the
    /// other is on the host
    #[arg(long)]
    alternate: bool,
    /// Hold launches on GPUs that change at random every so many milliseconds, for tests
    #[arg(long, value_name = "MS", hide = true)]
    hold_every: Option<u64>,
    /// Bytes of host memory for what leaves the GPUs, such as 64GiB [default: what the host has to spare]
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    swap_memory: Option<u64>,
    /// Bytes that a process may have on a GPU beyond what it was granted, by the driver's word: libraries, or
    /// more than it said. The log tells of one that has more
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    overhead_limit: Option<u64>,
    /// End such a process: by SIGTERM, after 5 s by SIGKILL. Under MPS not one that was placed as a whole,
    /// which would take its neighbours with it
    #[arg(long, requires = "overhead_limit")]
    end_beyond: bool,
    /// Go on using GPUs that fail by the driver's word (Xids, ECC errors, row remapping), which are drained
    /// otherwise, and only say so
    #[arg(long)]
    no_health_drain: bool,
    /// Keep so many percent of each GPU's multiprocessors from batch programs that begin while a latency
    /// program is there; what runs keeps what it has
    #[arg(long, value_name = "PERCENT", default_value_t = daemon::LATENCY_RESERVE, value_parser = clap::value_parser!(u32).range(0..=50))]
    latency_reserve: u32,
    /// Start no MPS control daemon
    #[arg(long)]
    no_mps: bool,
    /// Stay ended when killed, also while programs need mgbd; as under systemd, which starts it again by
    /// itself
    #[arg(long)]
    no_restart: bool,
    /// Started again, for programs of the mgbd before: ends when they have, unless --idle-exit says otherwise
    #[arg(long = holder::AGAIN, hide = true)]
    again: bool,
    /// Let mgbd's loop make any system call, not only those that it needs
    #[arg(long)]
    no_seccomp: bool,
    /// Append the log to this file instead of writing it to stderr
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(tell_of_panic));
    if std::env::args_os().nth(1).is_some_and(|first| first == "hold") {
        return hold();
    }
    // Started within a job, it still counts GPUs as the node does.
    // SAFETY: no other thread runs yet.
    unsafe { std::env::remove_var(mgb_probe::JOB) };
    let (options, matches) = options();
    if options.man {
        let printed = clap_mangen::Man::new(Options::command())
            .section("8")
            .render(&mut std::io::stdout());
        return printed.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let queue = match options.policy.serves(options.queue) {
        Ok(queue) => queue,
        Err(error) => Options::command()
            .error(ErrorKind::ArgumentConflict, error)
            .exit(),
    };
    if options.check {
        check_quotas(options.quotas.as_deref());
        // A reader that has gone is told nothing.
        let text = settings::text(&Options::command(), &matches);
        let _ = write!(std::io::stdout(), "# The settings are right. They are:\n{text}");
        return ExitCode::SUCCESS;
    }
    match run(options, queue) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            mgb_stderr::say!("mgbd: {error:#}");
            ExitCode::from(code(&error))
        }
    }
}

/// As Rust itself does, but without waiting for who reads standard error.
fn tell_of_panic(panic: &std::panic::PanicHookInfo<'_>) {
    log::flush();
    let from = std::backtrace::Backtrace::capture();
    let from = (from.status() == BacktraceStatus::Captured).then_some(from);
    mgb_stderr::say!(
        "mgbd: {panic}{}",
        from.map_or_else(String::new, |from| format!("\n{from}"))
    );
}

/// Ends with what is wrong with the file of quotas, if anything is.
fn check_quotas(file: Option<&Path>) {
    let wrong = match file.map(Quotas::read) {
        None => return,
        Some(Err(error)) => error.to_string(),
        Some(Ok(quotas)) if quotas.unknown.is_empty() => return,
        Some(Ok(quotas)) => format!("the quotas are for {}, unknown here", quotas.unknown.join(", ")),
    };
    mgb_stderr::say!("mgbd: {wrong}");
    std::process::exit(2);
}

/// The options of the command line, and those of the file that it names before them; and as clap has them.
fn options() -> (Options, ArgMatches) {
    let parsed = |arguments: Vec<OsString>| {
        let matches = Options::command().try_get_matches_from(arguments)?;
        Ok((Options::from_arg_matches(&matches)?, matches))
    };
    let (options, matches) =
        parsed(std::env::args_os().collect()).unwrap_or_else(|error: clap::Error| error.exit());
    let Some(file) = &options.settings else {
        return (options, matches);
    };
    let more = settings::arguments(file).unwrap_or_else(|error| {
        mgb_stderr::say!("mgbd: {error}");
        std::process::exit(2);
    });
    let mut own = std::env::args_os();
    let program = own.next().into_iter();
    parsed(program.chain(more).chain(own).collect()).unwrap_or_else(|error| {
        mgb_stderr::say!("mgbd: with the settings in {}:", file.display());
        error.exit()
    })
}

/// Whether systemd started this very process, or what wraps it, and so starts it again by itself. What else
/// systemd sets is inherited by all that a service starts, such as a job of cron's or a desktop's terminal.
fn is_service() -> bool {
    // A service that is to say when it is ready: nobody but mgbd does that here. `mgb` takes it from an mgbd
    // that it starts.
    if std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty()) {
        return true;
    }
    match std::env::var("SYSTEMD_EXEC_PID") {
        Ok(pid) => [std::process::id(), std::os::unix::process::parent_id()]
            .map(Ok)
            .contains(&pid.parse()),
        // systemd before 248 does not say it.
        Err(_) => {
            let has_started_it = || rustix::process::getppid() == rustix::process::Pid::from_raw(1);
            std::env::var_os("INVOCATION_ID").is_some() && has_started_it()
        }
    }
}

/// The socket that systemd has made, if it has.
fn activated() -> anyhow::Result<Option<Arc<OwnedFd>>> {
    let mut sockets = sd_notify::listen_fds().context("failed to take the socket of systemd's")?;
    let first = sockets.next();
    // SAFETY: systemd has opened it for this process alone, which takes it once.
    Ok(first.map(|socket| Arc::new(unsafe { OwnedFd::from_raw_fd(socket) })))
}

/// `mgbd hold SOCKET CONTROL [FOLDER PROGRAM ARGUMENT...]`: not for people; see [`mgb_scheduler::holder`].
/// The line to the mgbd that starts it is its standard input.
fn hold() -> ExitCode {
    let mut words = std::env::args_os().skip(2);
    let (Some(mgbd), Some(control)) = (words.next(), words.next()) else {
        mgb_stderr::say!(
            "mgbd: hold is what mgbd starts by itself: it takes a socket's path, MPS's control program, and \
             how mgbd is started again"
        );
        return ExitCode::from(2);
    };
    let again = Again::read(words);
    let listen = || -> anyhow::Result<()> {
        // Whoever kills mgbd by its name does not mean what outlives it.
        rustix::thread::set_name(c"mgb-holder").context("failed to take a name")?;
        let _log = start_log(None)?;
        let line = take_line()?.context("the line to mgbd is to be its standard input")?;
        Ok(holder::run(line, Path::new(&mgbd), control.into(), again)?)
    };
    match listen() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            mgb_stderr::say!("mgbd: the holder ends: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The line at this process's standard input, which is empty from now on: nobody that it starts inherits the
/// line. `None`: there is none.
fn take_line() -> anyhow::Result<Option<OwnedFd>> {
    use rustix::net::{AddressFamily, SocketType, sockopt};
    let input = std::io::stdin();
    let is_line = sockopt::socket_type(&input) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_domain(&input) == Ok(AddressFamily::UNIX);
    if !is_line {
        return Ok(None);
    }
    let line = input.as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null").context("failed to open /dev/null")?;
    // SAFETY: a system call on two descriptors of this process, of which nobody owns the one that is
    // replaced.
    if unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(std::io::Error::last_os_error()).context("failed to empty standard input");
    }
    Ok(Some(line))
}

/// The path of this program, by the name that it was started by: a next build is found there as well, also
/// where that name is a link.
fn own_program() -> anyhow::Result<PathBuf> {
    let name = rustix::param::linux_execfn();
    let file = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let own = file(Path::new("/proc/self/exe"));
    std::path::absolute(std::ffi::OsStr::from_bytes(name.to_bytes()))
        .ok()
        .filter(|path| own.is_some() && file(path) == own)
        .map_or_else(std::env::current_exe, Ok)
        .context("failed to find mgbd's own program")
}

fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(DaemonError::Listen(ListenError::Running { .. })) => return 3,
        Some(DaemonError::Quotas(_)) => return 2,
        _ => {}
    }
    match error.downcast_ref::<DiscoverError>() {
        Some(DiscoverError::Driver(..)) | None => 1,
        Some(_) => 4,
    }
}

fn run(options: Options, queue: Queue) -> anyhow::Result<()> {
    let _log = start_log(options.log.as_ref())?;
    let stop = signals(&[signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
        .context("failed to listen for signals")?;
    let limits = Limits {
        capacity: options.capacity,
        context: options.context,
        mps: !options.no_mps,
    };
    let node = NvmlNode::discover(limits)?;
    let socket = options.socket.unwrap_or_else(|| {
        if options.serve.are_several() {
            mgb_probe::node_socket_path()
        } else {
            mgb_probe::socket_path()
        }
    });
    // The holder runs in another folder.
    let usual = Config::new(std::path::absolute(socket).context("failed to name the socket")?);
    let program = own_program()?;
    let again = Again {
        program: program.clone(),
        arguments: std::env::args_os().skip(1).collect(),
        folder: std::env::current_dir().unwrap_or_else(|_| "/".into()),
    };
    let config = Config {
        activated: activated()?,
        users: options.serve,
        // `systemctl reload` is no reason to end where there are no quotas.
        reload: if options.quotas.is_some() || is_service() {
            let told = signals(&[signal_hook::consts::SIGHUP]).context("failed to listen for SIGHUP")?;
            Some(Arc::new(told))
        } else {
            None
        },
        quotas: options.quotas,
        subordinates: options.subuid,
        policy: options.policy,
        queue,
        patience: Duration::from_secs(options.patience),
        evicts: (!options.no_swap).then_some(options.evict_by),
        moves: !options.no_move,
        shuffles: options.move_every.map(Duration::from_millis),
        fair: !options.no_fair,
        alternates: options.alternate,
        shakes: options.hold_every.map(Duration::from_millis),
        swap_memory: options.swap_memory,
        overhead_limit: options.overhead_limit.map(|bytes| OverheadLimit {
            bytes,
            ends: options.end_beyond,
        }),
        drains_failing: !options.no_health_drain,
        idle_exit: options
            .idle_exit
            .map(Duration::from_secs)
            .or(options.again.then_some(LINGERING)),
        mps: !options.no_mps,
        latency_reserve: options.latency_reserve,
        past: options.past.unwrap_or(usual.past),
        socket: usual.socket,
        holder: Some(program),
        again: (!options.no_restart && !is_service()).then_some(again),
        holder_line: if options.again {
            take_line()?.map(Arc::new)
        } else {
            None
        },
        confines: !options.no_seccomp,
        mps_control: usual.mps_control,
    };
    let node = Bounded::new(node).context("failed to start the threads that ask the driver")?;
    Ok(daemon::run(config, Box::new(node), stop)?)
}

/// Where the log goes: to standard error, or this file. What is written there by the end of the process is
/// what is returned waits for.
fn start_log(file: Option<&PathBuf>) -> anyhow::Result<Flush> {
    let filter = EnvFilter::try_from_env("MGBD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = file.is_none() && std::io::stderr().is_terminal();
    let file = match file {
        None => File::from(std::io::stderr().as_fd().try_clone_to_owned()?),
        Some(path) => OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("failed to open the log file {}", path.display()))?,
    };
    // For as long as this process is there.
    seccomp::tell_in(file.try_clone()?.into_raw_fd());
    let (log, flush) = Log::start(file).context("failed to start the thread that writes the log")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(colour)
        .with_writer(Arc::new(log))
        .init();
    Ok(flush)
}

/// A descriptor that becomes readable on these signals.
fn signals(signals: &[i32]) -> std::io::Result<OwnedFd> {
    let (read, write) = UnixStream::pair()?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read.into())
}
