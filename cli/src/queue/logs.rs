//! `mgb queue logs`.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use mgb_command::exit::{self, CommandResult, Failure, WithCode};
use mgb_queue::id::{JobId, Selection};
use mgb_queue::protocol::{JobFilter, ListedJob};

use super::connect;

/// How often a log is looked at for more.
const LOOK: Duration = Duration::from_millis(200);

/// Print what a job has printed, in its last attempt.
#[derive(Debug, Args)]
pub struct Logs {
    /// The job: 12, or of an array 12_3.
    #[arg(value_name = "JOB")]
    job: JobId,
    /// Go on until the job has ended.
    #[arg(short, long)]
    follow: bool,
    /// Print the path of the log instead.
    #[arg(long, conflicts_with = "follow")]
    path: bool,
}

/// Runs the command.
pub fn run(args: &Logs) -> CommandResult {
    let mut listed = find(args.job)?;
    while args.follow && listed.log.is_none() && !listed.job.state.is_final() {
        std::thread::sleep(LOOK);
        listed = find(args.job)?;
    }
    let Some(log) = listed.log.clone() else {
        let error = anyhow!(
            "job {} was not started: it is {}",
            args.job,
            listed.job.state.name()
        );
        return Err(Failure::new(exit::FAILED, error));
    };
    if args.path {
        mgb_command::out::print(&format!("{}\n", log.display()));
        return Ok(exit::OK);
    }
    let read = |file: &mut Option<File>, at: &mut u64| -> anyhow::Result<()> {
        if file.is_none() {
            // Its watcher makes it.
            *file = File::open(&log).ok();
        }
        let Some(file) = file else { return Ok(()) };
        file.seek(SeekFrom::Start(*at))?;
        let mut output = io::stdout().lock();
        *at += io::copy(file, &mut output)?;
        output.flush()?;
        Ok(())
    };
    let (mut file, mut at) = (None, 0);
    loop {
        // Before reading: what it printed last comes before its end.
        let listed = find(args.job)?;
        let printed = read(&mut file, &mut at);
        match printed {
            // A reader that has seen enough is not an error.
            Err(error) if is_closed(&error) => return Ok(exit::OK),
            printed => printed
                .with_context(|| format!("failed to print {}", log.display()))
                .code(exit::FAILED)?,
        }
        if !args.follow || listed.job.state.is_final() || listed.log.as_ref() != Some(&log) {
            return Ok(exit::OK);
        }
        std::thread::sleep(LOOK);
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn find(id: JobId) -> Result<ListedJob, Failure> {
    let jobs: Selection = id
        .to_string()
        .parse()
        .map_err(|why: String| Failure::new(exit::USAGE, anyhow!(why)))?;
    let filter = JobFilter {
        jobs: vec![jobs],
        ..JobFilter::default()
    };
    let mut found = connect::listing(filter)?.jobs;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::new(exit::USAGE, anyhow!("there is no job {id}"))),
        _ => {
            let first = found[0].job.id;
            let error = anyhow!("job {id} is an array: name an element, such as {first}");
            Err(Failure::new(exit::USAGE, error))
        }
    }
}
