//! `mgb suspend` and `mgb resume`: a program leaves the GPUs until it is told to go on.

use std::fmt::Write;
use std::time::Duration;

use anyhow::anyhow;
use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::out;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{LeavingView, NodeView, SuspendedView};
use mgb_probe::{Changed, Client, Processes, socket_path};
use serde::Serialize;

use crate::wait_evicted::{self, Remaining};

const SUSPEND_HELP: &str = "\
The program is not stopped: its work on the host goes on, and so does what it has already given to a GPU. Then its \
memory goes to the host, other programs can have the room, and it waits at its next call that needs a GPU. After \
`mgb resume` it gets room like everybody else, its memory comes back, and it notices nothing but the time.

If memory cannot leave (a program without MGB or with --need, a kernel that does not end), the command says why after \
--timeout. The program is suspended all the same: it is granted nothing more, and what can leave later does.

Exit code: 0 when all memory has left, 1 if some has not or there is no such process, 3 if no mgbd answers.";

/// Have a program leave the GPUs until `mgb resume`: its memory goes to the host.
#[derive(Debug, clap::Args)]
#[command(after_help = SUSPEND_HELP)]
pub struct Suspend {
    #[command(flatten)]
    whom: Whom,
    /// Do not wait until the memory has left.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for that.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        conflicts_with = "no_wait"
    )]
    timeout: u64,
}

/// Let a suspended program go on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Its memory comes back as the program uses it, once there is room.\n\n\
                  Exit code: 0, 1 if there is no such process, 3 if no mgbd answers."
)]
pub struct Resume {
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, clap::Args)]
struct Whom {
    /// A process id as `mgb status` shows it, or the 16 digits of a job (`MGB_JOB` in its processes).
    #[arg(value_name = "PID|JOB", value_parser = parse)]
    whom: Processes,
    /// The whole job that the process belongs to: all that its `mgb run`, or its line of a batch, started.
    #[arg(long)]
    job: bool,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
}

fn parse(text: &str) -> Result<Processes, String> {
    if text.len() == 16
        && let Ok(job) = u64::from_str_radix(text, 16)
    {
        return Ok(Processes::Job(job));
    }
    let pid = text.parse().ok().filter(|&pid| pid != 0);
    pid.map(Processes::One)
        .ok_or_else(|| "neither a process id nor the 16 hexadecimal digits of a job".to_owned())
}

impl Whom {
    fn processes(&self) -> Processes {
        match self.whom {
            Processes::One(pid) if self.job => Processes::JobOf(pid),
            whom => whom,
        }
    }

    /// What they are called in sentences.
    fn name(&self) -> String {
        match self.processes() {
            Processes::One(pid) => format!("process {pid}"),
            Processes::JobOf(pid) => format!("the job of process {pid}"),
            Processes::Job(job) | Processes::JobOfUser(_, job) => format!("job {job:016x}"),
        }
    }

    /// As a command line names them.
    fn argument(&self) -> String {
        match self.processes() {
            Processes::One(pid) => pid.to_string(),
            Processes::JobOf(pid) => format!("--job {pid}"),
            Processes::Job(job) | Processes::JobOfUser(_, job) => format!("{job:016x}"),
        }
    }

    /// Those of the view's suspended processes that are meant.
    fn among<'a>(&self, view: &'a NodeView) -> Vec<&'a SuspendedView> {
        let job = match self.processes() {
            Processes::One(pid) => return view.suspended.iter().filter(|one| one.pid == pid).collect(),
            Processes::Job(job) | Processes::JobOfUser(_, job) => Some(format!("{job:016x}")),
            Processes::JobOf(pid) => {
                let own = view.suspended.iter().find(|one| one.pid == pid);
                own.and_then(|own| own.job.clone())
            }
        };
        let is_meant = |one: &&SuspendedView| one.job.is_some() && one.job == job;
        view.suspended.iter().filter(is_meant).collect()
    }

    fn unknown(&self) -> Failure {
        let name = self.name();
        let error = match self.processes() {
            Processes::JobOf(pid) => anyhow!(
                "mgbd knows no process {pid}, or it belongs to no job: only what `mgb run` and `mgb batch` start does"
            ),
            _ => anyhow!("mgbd knows no {name}: it has ended, has used no GPU yet, or does not use MGB"),
        };
        Failure::new(exit::FAILED, error)
    }
}

/// What `mgb suspend --json` prints.
#[derive(Serialize)]
struct Suspended {
    /// Nothing is left on a GPU.
    complete: bool,
    processes: Vec<SuspendedView>,
    leaving: Vec<LeavingView>,
}

/// What `mgb resume --json` prints.
#[derive(Serialize)]
struct Resumed {
    /// False: it was not suspended.
    was_suspended: bool,
}

fn connect() -> Result<Client, Failure> {
    Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)
}

/// Runs `mgb suspend`.
pub fn suspend(args: &Suspend) -> CommandResult {
    let client = connect()?;
    let whom = &args.whom;
    if client.suspend(whom.processes()).code(exit::FAILED)? == Changed::Unknown {
        return Err(whom.unknown());
    }
    let left = |view: &NodeView| Remaining {
        what: view
            .leaving
            .iter()
            .filter(|left| whom.among(view).iter().any(|one| one.pid == left.pid))
            .cloned()
            .collect(),
        // One that has ended has nothing any more.
        reclaiming: 0,
        is_cut: !view.cut.shows_all_that_leaves(),
    };
    let patience = if args.no_wait {
        Duration::ZERO
    } else {
        Duration::from_secs(args.timeout)
    };
    let mut pids: Vec<u32> = Vec::new();
    let (view, left) = wait_evicted::wait("suspending", Some(patience), |view| {
        pids.extend(whom.among(view).iter().map(|one| one.pid));
        left(view)
    })
    .code(exit::NODE)?;
    pids.sort_unstable();
    pids.dedup();
    let complete = left.is_none();
    let processes = whom.among(&view);
    if whom.json {
        let document = Suspended {
            complete,
            processes: processes.into_iter().cloned().collect(),
            leaving: left.what,
        };
        out::print(&out::json(&document).code(exit::NODE)?);
        return Ok(if complete || args.no_wait {
            exit::OK
        } else {
            exit::FAILED
        });
    }
    out::print(&said(&pids, &processes, &left.what));
    if complete || args.no_wait {
        out::print(&format!(
            "nothing is granted until `mgb resume {}`\n",
            whom.argument()
        ));
        return Ok(exit::OK);
    }
    Err(Failure::new(
        exit::FAILED,
        anyhow!(
            "{} after {} s; {} stays suspended: nothing more is granted, and what can leave later does; `mgb resume {}` ends that",
            left.sentence(),
            args.timeout,
            whom.name(),
            whom.argument()
        ),
    ))
}

/// A line for each process.
fn said(pids: &[u32], now: &[&SuspendedView], left: &[LeavingView]) -> String {
    let mut text = String::new();
    for &pid in pids {
        let views: Vec<_> = now.iter().filter(|one| one.pid == pid).collect();
        if views.is_empty() {
            let _ = writeln!(text, "process {pid} has ended");
            continue;
        }
        let of = |gpu: usize| {
            let bytes = views.iter().filter_map(|one| one.evicted_bytes.get(gpu));
            (gpu, bytes.sum::<u64>())
        };
        let gpus = views.iter().map(|one| one.evicted_bytes.len()).max().unwrap_or(0);
        let gone: Vec<String> = (0..gpus)
            .map(of)
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(gpu, bytes)| format!("{} from GPU {gpu}", Bytes(bytes)))
            .collect();
        let state = if left.iter().any(|one| one.pid == pid) {
            "suspending"
        } else {
            "suspended"
        };
        let _ = match gone.as_slice() {
            [] => writeln!(text, "process {pid} is {state}; none of its memory was on a GPU"),
            gone => writeln!(
                text,
                "process {pid} is {state}; in host memory now: {}",
                gone.join(", ")
            ),
        };
    }
    text
}

/// Runs `mgb resume`.
pub fn resume(args: &Resume) -> CommandResult {
    let client = connect()?;
    let whom = &args.whom;
    let changed = client.resume(whom.processes()).code(exit::FAILED)?;
    if changed == Changed::Unknown {
        return Err(whom.unknown());
    }
    let was_suspended = changed == Changed::Now;
    if whom.json {
        out::print(&out::json(&Resumed { was_suspended }).code(exit::NODE)?);
    } else if was_suspended {
        out::print(&format!("{} goes on\n", whom.name()));
    } else {
        out::print(&format!("{} was not suspended\n", whom.name()));
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_jobs_are_told_apart() {
        assert_eq!(parse("4711"), Ok(Processes::One(4711)));
        assert_eq!(parse("00000000000000ff"), Ok(Processes::Job(255)));
        for wrong in ["", "0", "-1", "job", "00000000000000fg", "99999999999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    fn suspended(pid: u32, evicted: &[u64]) -> SuspendedView {
        SuspendedView {
            pid,
            uid: 0,
            job: None,
            whole_job: false,
            age_ms: 0,
            evicted_bytes: evicted.to_vec(),
        }
    }

    #[test]
    fn each_process_has_a_line() {
        let two = [suspended(7, &[40 << 20, 0, 1 << 30]), suspended(8, &[0, 0, 0])];
        let left = LeavingView {
            pid: 8,
            uid: 0,
            gpu: 1,
            bytes: 1,
            hindrance: None,
        };
        assert_eq!(
            said(&[6, 7, 8], &two.iter().collect::<Vec<_>>(), &[left]),
            "process 6 has ended\n\
             process 7 is suspended; in host memory now: 40.0 MiB from GPU 0, 1.0 GiB from GPU 2\n\
             process 8 is suspending; none of its memory was on a GPU\n"
        );
    }
}
