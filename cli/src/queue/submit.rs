//! `mgb submit`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_command::out;
use mgb_core::mps;
use mgb_probe::Deadline;
use mgb_queue::id::{LAST_INDEX, Selection, range};
use mgb_queue::protocol::{Answer, JobFilter, Request, Submission};
use mgb_queue::record::{FailureKind, JobSpec};
use serde::Serialize;

use super::{change, connect, wait};
use crate::batch::jobfile::{self, FileJob};
use crate::{deadline, program};

/// Put jobs into your queue, and print their numbers.
///
/// A job runs in the folder and with the variables that its submission had, as mgb run would run it; what it
/// prints goes to a log (mgb queue logs). It sees its number in MGB_JOB_ID, and its index in an array in
/// MGB_ARRAY_INDEX. The queue outlives this terminal: a service of yours starts as many jobs as the node can use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb submit -- ./train --epochs 3
  mgb submit --name sweep --array 0-99%8 --sh './train --seed $MGB_ARRAY_INDEX > $MGB_ARRAY_INDEX.txt'
  mgb submit --after-ok 12 --retries 2 --retry-on gpu-fault --retry-on lost -- ./report
  mgb submit --file jobs.txt --tag tonight     a command a line, as mgb batch takes them

Reasons for --retry-on: out-of-memory, never-fits, over-quota, gpu-fault, signal, exit, not-started, time-limit, lost. Without it \
a job is run again after any failure but lost: of a job that was lost as the node went down, nobody knows whether it \
has done its work.

Exit code: 0 if the jobs are in the queue, with --wait if they ended well as well, else 1; 2 wrong usage; 3 no queue.")]
pub struct Args {
    /// Take the jobs from a file with a command a line, in place of a program.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "sh", "array"])]
    file: Option<PathBuf>,
    /// Text that /bin/sh reads, in place of a program: pipes, redirections and variables work.
    #[arg(long, value_name = "TEXT", conflicts_with = "command")]
    sh: Option<String>,
    /// Run it once for each index, such as 0-99 or 1,3,5-7; with %8 behind, at most 8 at once.
    #[arg(long, value_name = "INDICES", value_parser = array)]
    array: Option<Indices>,
    /// What it is called [default: the name of the program].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A word to find it by; it can be repeated.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Jobs with a higher priority start first [default: 0].
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Start it once these have ended, however they did.
    #[arg(long, value_name = "JOB")]
    after: Vec<Selection>,
    /// Start it once these have ended well; if one does not, it is skipped.
    #[arg(long, value_name = "JOB")]
    after_ok: Vec<Selection>,
    /// How long it may run, such as 90s or 1h30m; then it is ended.
    #[arg(long, value_name = "SPAN", value_parser = change::limit)]
    limit: Option<f64>,
    /// How often it is run again after it has failed.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    retries: u32,
    /// Run it again only after it has failed for this reason; it can be repeated.
    #[arg(long, value_name = "REASON", value_parser = reason, requires = "retries")]
    retry_on: Vec<FailureKind>,
    /// Do not start it until `mgb queue release`.
    #[arg(long)]
    hold: bool,
    /// The folder that it runs in [default: this one].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Treat the whole process as one task that takes this much GPU memory (see mgb run --need).
    #[arg(long, value_name = "SIZE", value_parser = mgb_probe::byte_size::parse)]
    need: Option<u64>,
    /// Place it on so many GPUs as one (see mgb run --gpus).
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus: Option<u32>,
    /// Somebody waits for what it computes (see mgb run --latency).
    #[arg(long)]
    latency: bool,
    /// It has at most this percentage of each GPU's multiprocessors, such as 25% (see mgb run --share).
    #[arg(long, value_name = "PERCENT", value_parser = mps::parse_share)]
    share: Option<u32>,
    /// When it is to have ended: a span from now, or a time such as 18:30 (see mgb run --deadline).
    #[arg(long, value_name = "TIME", value_parser = deadline::parse)]
    deadline: Option<Deadline>,
    /// Wait until it has ended, and print what came of it.
    #[arg(long)]
    wait: bool,
    /// Print the numbers, with --wait what came of the jobs, as JSON.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(
        required_unless_present_any = ["file", "sh"],
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Indices of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Indices {
    each: Vec<u32>,
    most: Option<u32>,
}

#[derive(Serialize)]
struct Numbers {
    jobs: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let submission = submission(args).code(exit::USAGE)?;
    let ids = match connect::ask(&Request::Submit(Box::new(submission)))? {
        Answer::Submitted(ids) => ids,
        other => return Err(connect::unexpected(&other)),
    };
    let mut numbers: Vec<u32> = ids.iter().map(|id| id.number).collect();
    numbers.dedup();
    if !args.wait {
        // Of an array the number that all elements share.
        let text = |number: &u32| number.to_string();
        let jobs: Vec<String> = numbers.iter().map(text).collect();
        if args.json {
            out::print(&out::json(&Numbers { jobs }).code(exit::NODE)?);
        } else {
            out::print(&(jobs.join("\n") + "\n"));
        }
        return Ok(exit::OK);
    }
    let jobs = numbers
        .iter()
        .map(|number| number.to_string().parse::<Selection>());
    let jobs: Result<Vec<Selection>, String> = jobs.collect();
    let filter = JobFilter {
        jobs: jobs.map_err(|why| Failure::new(exit::NODE, anyhow!(why)))?,
        ..JobFilter::default()
    };
    wait::tell_when_ended(&filter, args.json, false)
}

fn submission(args: &Args) -> Result<Submission> {
    let jobs = match (&args.file, &args.sh) {
        (Some(file), _) => jobfile::read(file)?,
        (None, Some(text)) => vec![jobfile::of_shell(text).map_err(|why| anyhow!(why))?],
        (None, None) => vec![of_words(&args.command)?],
    };
    let here = std::env::current_dir().context("failed to find the folder that this is")?;
    let folder = match &args.folder {
        Some(folder) => {
            let found = folder.canonicalize();
            found.with_context(|| format!("failed to find the folder {}", folder.display()))?
        }
        None => here.clone(),
    };
    text(folder.as_os_str(), "the name of the folder")?;
    let after = change::dependencies(&args.after, &args.after_ok);
    let share = args
        .share
        .map(|percent| (mps::SHARE.to_owned(), format!("{percent}%")));
    let jobs = jobs.into_iter().map(|job| {
        Ok(JobSpec {
            text: job.text,
            program: absolute(&job.program, &here)?,
            arguments: job.arguments,
            folder: folder.clone(),
            // What a line says goes before what is said of all.
            variables: share.clone().into_iter().chain(job.environment).collect(),
            name: args.name.clone(),
            tags: args.tag.clone(),
            need: job.need.or(args.need),
            gpus: job.gpus.or(args.gpus),
            latency: args.latency,
            deadline: job.deadline.or(args.deadline).map(Deadline::as_secs_f64),
            priority: args.priority.unwrap_or(0),
            after: after.clone(),
            limit_s: args.limit.filter(|limit| *limit > 0.0),
            retries: args.retries,
            retry_on: args.retry_on.clone(),
            array_most: args.array.as_ref().and_then(|array| array.most),
        })
    });
    let jobs: Result<Vec<JobSpec>> = jobs.collect();
    Ok(Submission {
        jobs: jobs?,
        array: args.array.as_ref().map(|array| array.each.clone()),
        environment: environment(),
        is_held: args.hold,
    })
}

/// A command that the shell has taken apart.
fn of_words(words: &[OsString]) -> Result<FileJob> {
    let words: Result<Vec<String>> = words.iter().map(|word| text(word, "an argument")).collect();
    let words = words?;
    let program = program::find(&words[0])?;
    let quoted = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "));
    Ok(FileJob {
        number: 1,
        text: quoted,
        need: None,
        gpus: None,
        deadline: None,
        program,
        arguments: words[1..].to_vec(),
        environment: Vec::new(),
    })
}

fn text(word: &std::ffi::OsStr, what: &str) -> Result<String> {
    match word.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => bail!(
            "{what} is no UTF-8, which the queue cannot keep: {}",
            word.display()
        ),
    }
}

fn absolute(program: &Path, here: &Path) -> Result<PathBuf> {
    let path = here.join(program);
    text(path.as_os_str(), "the name of the program")?;
    Ok(path)
}

/// This process's variables, as `execve` takes them.
fn environment() -> Vec<u8> {
    let mut environment = Vec::new();
    for (name, value) in std::env::vars_os() {
        environment.extend_from_slice(name.as_bytes());
        environment.push(b'=');
        environment.extend_from_slice(value.as_bytes());
        environment.push(0);
    }
    environment
}

fn array(text: &str) -> Result<Indices, String> {
    let wrong =
        || format!("`{text}` is no array: write 0-99, 1,3,5-7, or 0-99%8 for 8 at once (0 to {LAST_INDEX})");
    let (indices, most) = match text.split_once('%') {
        Some((indices, most)) => (
            indices,
            Some(most.parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?),
        ),
        None => (text, None),
    };
    let mut each = Vec::new();
    for part in indices.split(',') {
        let (first, last) = range(part)
            .filter(|(_, last)| *last <= LAST_INDEX)
            .ok_or_else(wrong)?;
        each.extend(first..=last);
    }
    each.sort_unstable();
    each.dedup();
    Ok(Indices { each, most })
}

fn reason(text: &str) -> Result<FailureKind, String> {
    let found = FailureKind::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let names: Vec<&str> = FailureKind::ALL.iter().map(|(name, _)| *name).collect();
        format!("none of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_lists_of_ranges() {
        let read = |text: &str| array(text).map(|indices| (indices.each, indices.most));
        assert_eq!(read("0-3"), Ok((vec![0, 1, 2, 3], None)));
        assert_eq!(read("7,1,3-4,4%2"), Ok((vec![1, 3, 4, 7], Some(2))));
        for wrong in ["", "1-", "%2", "1%0", "1%", "1,,2", "0-1000000", "a", "3-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
