//! `mgbd`: the daemon that owns a node's GPUs for MGB. See
//! [`mgb_scheduler::daemon`].
//!
//! Exit codes: 0 after SIGTERM or SIGINT, or when idle for long enough; 2 for a
//! command line, settings or quotas that cannot be understood; 3 if another `mgbd` already runs at
//! the socket; 4 if there is no GPU to share; 5 if it was about to make a system call that it may not make
//! ([`mgb_scheduler::seccomp`]); 1 for everything else.

mod options;

use std::backtrace::BacktraceStatus;
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
use clap::{ArgMatches, CommandFactory};
use mgb_interface::Queue;
use mgb_scheduler::daemon::{self, Config, DaemonError, ListenError};
use mgb_scheduler::holder::Again;
use mgb_scheduler::log::{Flush, Log};
use mgb_scheduler::node::bounded::Bounded;
use mgb_scheduler::node::nvml::{DiscoverError, Limits, NvmlNode};
use mgb_scheduler::quota::file::Quotas;
use mgb_scheduler::{holder, log, seccomp, settings};
use tracing_subscriber::EnvFilter;

use options::{Options, live, options, reread};

/// How long one that was started again stays when nobody needs it any more.
const LINGERING: Duration = Duration::from_secs(60);

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
        let text = settings::text(&settings::all(&Options::command(), &matches));
        let _ = write!(std::io::stdout(), "# The settings are right. They are:\n{text}");
        return ExitCode::SUCCESS;
    }
    match run(options, &matches, queue) {
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

/// The folder for what programs take that systemd has made for the service.
fn state_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("STATE_DIRECTORY").filter(|folder| is_service() && !folder.is_empty())?;
    Some(PathBuf::from(folder).join("usage"))
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

fn run(options: Options, matches: &ArgMatches, queue: Queue) -> anyhow::Result<()> {
    let _log = start_log(options.log.as_ref())?;
    let stop = signals(&[signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
        .context("failed to listen for signals")?;
    let limits = Limits {
        capacity: options.capacity,
        context: options.context,
        mps: !options.no_mps,
    };
    let node = NvmlNode::discover(limits)?;
    let (reread, live) = (reread(&options, matches), live(&options));
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
        reload: if options.quotas.is_some() || reread.is_some() || is_service() {
            let told = signals(&[signal_hook::consts::SIGHUP]).context("failed to listen for SIGHUP")?;
            Some(Arc::new(told))
        } else {
            None
        },
        reread,
        quotas: options.quotas,
        subordinates: options.subuid,
        policy: options.policy,
        queue,
        patience: live.patience,
        evicts: (!options.no_swap).then_some(options.evict_by),
        moves: live.moves,
        shuffles: options.move_every.map(Duration::from_millis),
        fair: !options.no_fair,
        shakes: options.hold_every.map(Duration::from_millis),
        swap_memory: live.swap_memory,
        overhead_limit: live.overhead_limit,
        drains_failing: live.drains_failing,
        idle_exit: options
            .idle_exit
            .map(Duration::from_secs)
            .or(options.again.then_some(LINGERING)),
        mps: !options.no_mps,
        latency_reserve: live.latency_reserve,
        past: options.past.unwrap_or(usual.past),
        usage: options.usage.or_else(state_folder).unwrap_or(usual.usage),
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
