//! `mgb cluster overtime`: gives the memory of a job that Slurm suspends longer than Slurm does to leave.
//!
//! Slurm freezes a step two seconds after it has announced that, and a frozen program copies nothing. The
//! memory of large GPUs takes longer. So this process, which the watcher starts at the announcement and which
//! is in slurmstepd's own control group, thaws the step's group as long as memory is on its way, and freezes
//! it again. To Slurm the step is frozen all the time. What Slurm orders meanwhile goes before: it thaws the
//! group and signals what is in it, the watcher among others.

use std::path::Path;
use std::time::{Duration, Instant};

use mgb_command::exit::{self, CommandResult};
use mgb_command::watch::MgbdWatch;
use mgb_probe::NODE_SOCKET;
use mgb_probe::view::{Hindrance, NodeView};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::group::{self, Freezer};

/// Between two looks at the group.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How long after the announcement Slurm has frozen the step for sure: two seconds, on a slow node more.
const FROZEN_WITHIN: Duration = Duration::from_secs(20);
/// For how long it looks whether Slurm had the job go on just as it was frozen again: as long as Slurm may
/// take from thawing it to the signal.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// Thaw a suspended Slurm job while its memory leaves the GPUs (`mgb cluster watch` starts it).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// All steps of the job, as mgbd knows them.
    #[arg(long)]
    job: u64,
    /// The user of the job, as a number
    #[arg(long, value_name = "UID")]
    user: u32,
    /// The watcher, which is in the step's group.
    #[arg(long, value_name = "PID")]
    watcher: u32,
    /// Its slurmstepd, which is not.
    #[arg(long, value_name = "PID")]
    beside: u32,
    /// How long it may take.
    #[arg(long)]
    seconds: u64,
}

/// Runs the command, until the step is as Slurm believes it to be.
pub fn run(args: &Args) -> CommandResult {
    group::join(args.beside);
    if let Waited::Found(freezer) = wait_for(FROZEN_WITHIN, || Freezer::holding(args.watcher)) {
        give_time(args, &freezer);
    }
    Ok(exit::OK)
}

/// Thaws the group until memory has left. What fails leaves it as it is.
fn give_time(args: &Args, freezer: &Freezer) {
    let Ok(mut node) = MgbdWatch::begin(Path::new(NODE_SOCKET)) else {
        return;
    };
    let mut is_leaving = || {
        node.status()
            .is_ok_and(|view| is_leaving(&view, args.user, args.job))
    };
    if !is_leaving() || freezer.thaw().is_err() {
        return;
    }
    let has_left = || (!is_leaving()).then_some(());
    if wait_for(Duration::from_secs(args.seconds), has_left) == Waited::Ended || freezer.freeze().is_err() {
        return;
    }
    // Slurm may have thawed it right before it was frozen again: then the watcher has closed its end, or the
    // signal waits there.
    let is_over = || (is_to_go_on(args.watcher) || !freezer.is_frozen()).then_some(());
    if wait_for(AFTERWARDS, is_over) != Waited::InVain {
        let _ = freezer.thaw();
    }
}

/// How waiting came out.
#[derive(Debug, PartialEq, Eq)]
enum Waited<T> {
    Found(T),
    InVain,
    /// The watcher has closed its end of the pipe that is this process's input: the job goes on, or the step
    /// has ended.
    Ended,
}

/// Looks again and again, for so long.
fn wait_for<T>(long: Duration, mut look: impl FnMut() -> Option<T>) -> Waited<T> {
    let until = Instant::now() + long;
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(CHECK_INTERVAL.subsec_nanos()),
    };
    loop {
        if let Some(found) = look() {
            return Waited::Found(found);
        }
        if Instant::now() >= until {
            return Waited::InVain;
        }
        let input = std::io::stdin();
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        if poll(&mut fds, Some(&pause)).is_ok_and(|count| count > 0) {
            return Waited::Ended;
        }
    }
}

/// Whether Slurm has signalled the watcher that its job goes on, or ends, and it could not hear that yet.
fn is_to_go_on(watcher: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{watcher}/status")).unwrap_or_default();
    [libc::SIGCONT, libc::SIGKILL, libc::SIGTERM]
        .into_iter()
        .any(|signal| is_pending(&status, signal))
}

/// Whether a signal waits for a process, by its `/proc/PID/status`.
fn is_pending(status: &str, signal: i32) -> bool {
    status.lines().any(|line| {
        let mask = line
            .strip_prefix("ShdPnd:")
            .or_else(|| line.strip_prefix("SigPnd:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    })
}

/// Whether memory of the user's job is still on GPUs and may leave them, as far as the view has all that
/// leaves.
fn is_leaving(view: &NodeView, user: u32, job: u64) -> bool {
    let is_its = |name: &String| {
        u64::from_str_radix(name, 16).is_ok_and(|one| mgb_probe::slurm_whole(one) == Some(job))
    };
    let own = |pid: u32| {
        view.suspended
            .iter()
            .any(|one| one.pid == pid && one.uid == user && one.job.as_ref().is_some_and(is_its))
    };
    let leaves = |why: Option<Hindrance>| matches!(why, None | Some(Hindrance::Busy | Hindrance::NoAnswer));
    !view.cut.shows_all_that_leaves()
        || view
            .leaving
            .iter()
            .any(|left| own(left.pid) && leaves(left.hindrance))
}

#[cfg(test)]
mod tests {
    use mgb_probe::view::{LeavingView, SuspendedView};

    use super::*;

    #[test]
    fn signals_that_wait_are_seen() {
        let none =
            "Name:\tmgb\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000020000\n";
        assert!(!is_pending(none, libc::SIGCONT));
        let waits = none.replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000020000");
        assert!(is_pending(&waits, libc::SIGCONT) && !is_pending(&waits, libc::SIGKILL));
        assert!(!is_pending("", libc::SIGCONT));
    }

    #[test]
    fn what_may_leave_is_waited_for() {
        let job = mgb_probe::slurm_whole(mgb_probe::slurm_step(7, 0)).unwrap();
        let of = |number, pid| SuspendedView {
            pid,
            uid: 1000,
            job: Some(format!("{:016x}", mgb_probe::slurm_step(number, 0))),
            whole_job: true,
            age_ms: 0,
            evicted_bytes: Vec::new(),
        };
        let left = |pid, hindrance| LeavingView {
            pid,
            uid: 1000,
            gpu: 0,
            bytes: 1,
            hindrance,
        };
        let mut view = NodeView {
            suspended: vec![of(7, 70), of(8, 80)],
            ..NodeView::default()
        };
        assert!(!is_leaving(&view, 1000, job));
        view.leaving = vec![left(80, None), left(70, Some(Hindrance::Declared))];
        assert!(!is_leaving(&view, 1000, job));
        for why in [None, Some(Hindrance::Busy), Some(Hindrance::NoAnswer)] {
            view.leaving = vec![left(70, why)];
            assert!(is_leaving(&view, 1000, job));
            assert!(!is_leaving(&view, 1001, job), "another user's of the same number");
        }
    }
}
