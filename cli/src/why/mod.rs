//! `mgb why`: why a program waits, is held, or runs where it does, by what mgbd shows of it.

mod due;
mod held;
mod place;
mod reason;
mod waits;

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::anyhow;
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::{daemon, out};
use mgb_probe::view::{NodeView, TaskView, WaitView};
use mgb_probe::{Class, Client, socket_path};
use serde::Serialize;

use self::reason::ReasonLine;
use crate::user;

const HELP: &str = "\
The process id is that of the program as `mgb status` shows it. What it prints of a moment ago may have changed: mgbd \
shows the node anew some times a second.

Exit code: 0, 1 if mgbd shows nothing of such a process or it is another user's, 3 if no mgbd answers.";

/// Say why a program waits, is held, or runs where it does.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// A process id as `mgb status` shows it.
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// Print the reasons as JSON, with what mgbd shows of the process.
    #[arg(long)]
    json: bool,
}

/// What is known of a process, and what follows from it. Scripts read it.
#[derive(Debug, Serialize)]
struct ExplainedProcess<'a> {
    /// Of this document.
    version: u32,
    pid: u32,
    uid: u32,
    class: Class,
    reasons: Vec<ReasonLine>,
    tasks: Vec<&'a TaskView>,
    waits: Vec<&'a WaitView>,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let client = Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let view = client.status().code(exit::NODE)?;
    let answer = explain(
        &view,
        &client.hello().queue,
        args.pid,
        nix::unistd::geteuid().as_raw(),
    )
    .map_err(|why| Failure::new(exit::FAILED, why))?;
    out::print(&if args.json {
        out::json(&answer).code(exit::NODE)?
    } else {
        text(&answer)
    });
    Ok(exit::OK)
}

/// What is known of a process, for this user, where tasks are served in this order.
fn explain<'a>(
    view: &'a NodeView,
    queue: &str,
    pid: u32,
    reader: u32,
) -> anyhow::Result<ExplainedProcess<'a>> {
    let tasks: Vec<&TaskView> = view.tasks.iter().filter(|task| task.pid == pid).collect();
    let waits: Vec<&WaitView> = view.queue.iter().filter(|wait| wait.pid == pid).collect();
    let suspended = view.suspended.iter().find(|one| one.pid == pid);
    let uids = tasks.iter().map(|task| task.uid);
    let uids = uids.chain(waits.iter().map(|wait| wait.uid));
    let Some(uid) = uids.chain(suspended.map(|one| one.uid)).next() else {
        return Err(unknown(view, pid));
    };
    if reader != 0 && uid != reader {
        return Err(anyhow!(
            "process {pid} is {}'s: a user is told of their own programs, and root of all",
            user::name(uid)
        ));
    }
    let class = tasks.iter().map(|task| task.class);
    let class = class
        .chain(waits.iter().map(|wait| wait.class))
        .next()
        .unwrap_or_default();
    let mut reasons = Vec::new();
    for wait in &waits {
        reasons.extend(waits::reasons(view, queue, wait));
    }
    if let Some(one) = suspended {
        reasons.push(waits::suspended(one));
    }
    let mut gpus = BTreeSet::new();
    for task in &tasks {
        reasons.extend(place::reasons(view, task));
        // What holds for all tasks of the process there.
        if gpus.insert(task.gpu) {
            reasons.extend(held::reasons(view, task));
        }
    }
    let has_no_right = waits.iter().any(|wait| wait.has_no_right);
    reasons.push(held::class(class, &tasks, has_no_right));
    reasons.dedup();
    Ok(ExplainedProcess {
        version: 1,
        pid,
        uid,
        class,
        reasons,
        tasks,
        waits,
    })
}

/// Why nothing is known of a process.
fn unknown(view: &NodeView, pid: u32) -> anyhow::Error {
    let cut = view.cut.tasks + view.cut.queue;
    if cut > 0 {
        return anyhow!(
            "mgbd shows nothing of process {pid}, and leaves {cut} tasks and requests out for want of room"
        );
    }
    let Some(_) = parent(pid) else {
        return anyhow!("there is no process {pid}; `mgb status` shows those that use GPUs");
    };
    let known = view.tasks.iter().map(|task| task.pid);
    let known: BTreeSet<u32> = known.chain(view.queue.iter().map(|wait| wait.pid)).collect();
    let children: Vec<String> = known
        .into_iter()
        .filter(|&known| descends(known, pid))
        .map(|known| format!("`mgb why {known}`"))
        .collect();
    if !children.is_empty() {
        return anyhow!(
            "process {pid} itself uses no GPU, but processes that it has started do: {}",
            children.join(", ")
        );
    }
    anyhow!(
        "process {pid} has and waits for nothing on a GPU of this mgbd: it has not come to use one yet, has done with \
         it, or does not run under MGB (`mgb run`)"
    )
}

/// The process that has started this one, as far as that can be seen.
fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

fn descends(pid: u32, from: u32) -> bool {
    /// No chain of parents is as long.
    const MAX_DEPTH: usize = 1000;
    let mut above = std::iter::successors(parent(pid), |&pid| parent(pid)).take(MAX_DEPTH);
    above.any(|pid| pid == from)
}

fn text(answer: &ExplainedProcess<'_>) -> String {
    let labels = answer.tasks.iter().map(|task| task.label.as_str());
    let labels = labels.chain(answer.waits.iter().map(|wait| wait.label.as_str()));
    let labels: BTreeSet<&str> = labels.filter(|label| !label.is_empty()).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let mut text = format!("process {} of {}", answer.pid, user::name(answer.uid));
    if !labels.is_empty() {
        let _ = write!(text, ": {}", labels.join(", "));
    }
    text.push_str("\n\n");
    let mut last = None;
    for reason in &answer.reasons {
        let word = if last == Some(reason.about) {
            ""
        } else {
            reason.about.word()
        };
        last = Some(reason.about);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{word:<10} {}", reason.text);
    }
    text
}

#[cfg(test)]
mod tests;
