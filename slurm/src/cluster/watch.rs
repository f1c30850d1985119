//! `mgb cluster watch`: a process beside a step's tasks that has the job's programs leave the GPUs before
//! Slurm stops them.
//!
//! `scontrol suspend`, and preemption by suspension, send SIGTSTP, stop the step two seconds later, and send
//! SIGCONT as it is to go on. Slurm sends these to processes that slurmstepd has made itself and that are in
//! the step's control group; no program of the user's should have to know them. So the plugin has slurmstepd
//! make this process, which joins the group, and has the tasks ignore SIGTSTP.

mod group;
pub mod overtime;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Context;
use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_probe::{Changed, Client, NODE_SOCKET, Processes};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open, set_parent_process_death_signal};

use super::job::SlurmStep;

/// How often it looks after what did not work at once. Memory has two seconds to leave.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The same while there is nothing to do: a signal wakes it, and so does the first task's end.
const REST: Duration = Duration::from_secs(60);

/// Suspend a Slurm job's programs with Slurm's own suspension (the SPANK plugin starts it).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Slurm's number of the job.
    #[arg(long, value_name = "NUMBER")]
    job: u32,
    /// The first task's process.
    #[arg(long, value_name = "PID")]
    task: u32,
    /// How long memory may take beyond Slurm's two seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    overtime: u64,
}

/// Runs the command, until the step's tasks have ended.
pub fn run(args: &Args) -> CommandResult {
    let stops = taken(Signal::SIGTSTP).code(exit::NODE)?;
    let goes_on = taken(Signal::SIGCONT).code(exit::NODE)?;
    // What slurmstepd has left is nobody's.
    let _ = set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let pid = i32::try_from(args.task).ok().and_then(Pid::from_raw);
    let pid = pid.context("that is no process id").code(exit::USAGE)?;
    let task = pidfd_open(pid, PidfdFlags::empty()).code(exit::USAGE)?;
    let step = SlurmStep {
        job: args.job,
        step: 0,
    };
    let whole = step.whole().context("no number for the job").code(exit::USAGE)?;
    // Another user's processes may say the same number.
    let user = std::fs::metadata(format!("/proc/{}", args.task))
        .code(exit::USAGE)?
        .uid();
    let job = Processes::JobOfUser(user, whole);
    // Beside the rest: where Slurm tracks processes by other means, there is no group to come.
    let of = args.task;
    std::thread::spawn(move || group::join(of));
    let (mut wanted, mut is, mut overtime) = (false, false, None);
    while !is_over(&task, [&stops, &goes_on], wanted != is) {
        if waits(&goes_on) {
            // Before the signal is taken: until then the other process sees that it waits.
            end(overtime.take());
            take(&goes_on);
            wanted = false;
        }
        if waits(&stops) {
            take(&stops);
            end(overtime.take());
            overtime = start_overtime(args.overtime, whole, user);
            wanted = true;
        }
        if wanted != is {
            // Until mgbd has it. A job that uses no GPU yet is unknown there, and asked about again.
            match order(job, wanted) {
                Ok(Changed::Now | Changed::Before) => is = wanted,
                Ok(Changed::Unknown) => is = false,
                Err(_) => {}
            }
        }
    }
    if is {
        let _ = order(job, false);
    }
    Ok(exit::OK)
}

/// Starts what gives memory longer to leave than Slurm does.
fn start_overtime(seconds: u64, job: u64, user: u32) -> Option<Child> {
    let parent = getppid().filter(|_| seconds > 0)?;
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(["cluster", "overtime", "--job", &job.to_string()]);
    command.args(["--user", &user.to_string()]);
    command.args(["--watcher", &std::process::id().to_string()]);
    command.args(["--beside", &parent.as_raw_nonzero().to_string()]);
    command.args(["--seconds", &seconds.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()
}

/// Tells it that the job goes on, and waits for its end. It is not killed: it may have frozen this process.
fn end(overtime: Option<Child>) {
    if let Some(mut overtime) = overtime {
        let _ = overtime.wait();
    }
}

/// A signal that waits until it is read here. Of SIGTSTP and SIGCONT the later one takes the earlier one
/// back.
fn taken(signal: Signal) -> nix::Result<SignalFd> {
    let set = SigSet::from(signal);
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

/// Whether one waits.
fn waits(signal: &SignalFd) -> bool {
    let mut fds = [PollFd::new(signal, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

fn take(signal: &SignalFd) {
    while let Ok(Some(_)) = signal.read_signal() {}
}

/// Waits for a signal, or a moment; true: the step's tasks have ended.
fn is_over(first: &OwnedFd, signals: [&SignalFd; 2], is_busy: bool) -> bool {
    let rest = if is_busy { SAMPLE_INTERVAL } else { REST };
    let wait = Timespec {
        tv_sec: rest.as_secs() as i64,
        tv_nsec: i64::from(rest.subsec_nanos()),
    };
    let [stops, goes_on] = signals.map(AsFd::as_fd);
    let mut fds = [first.as_fd(), stops, goes_on].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    if poll(&mut fds, Some(&wait)).is_err() {
        return false;
    }
    let has_ended = !fds[0].revents().is_empty();
    // The first one has; others may go on.
    let others = has_ended && siblings();
    if others {
        std::thread::sleep(SAMPLE_INTERVAL);
    }
    has_ended && !others
}

/// Whether slurmstepd has other children.
fn siblings() -> bool {
    let Some(parent) = getppid() else {
        return false;
    };
    let own = std::process::id().to_string();
    let threads = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()));
    let lists = threads.into_iter().flatten().flatten();
    let lists = lists.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let others: Vec<String> = lists.collect();
    let mut pids = others.iter().flat_map(|list| list.split_whitespace());
    // One that has ended is still listed until it was waited for.
    pids.any(|pid| pid != own && state(pid).is_some_and(|state| state != 'Z'))
}

/// A process's state as proc(5) has it.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Has the job's programs suspended, or go on.
fn order(job: Processes, stop: bool) -> anyhow::Result<Changed> {
    let client = Client::observe(Path::new(NODE_SOCKET)).map_err(daemon::way_out)?;
    Ok(if stop {
        client.suspend(job)?
    } else {
        client.resume(job)?
    })
}
