//! `mgb queue wait`.

use std::time::Duration;

use clap::Args;
use mgb_command::exit::{self, CommandResult, Failure};
use mgb_command::out;
use mgb_queue::protocol::{Answer, JobFilter, ListedJob, Listing, Request};
use mgb_queue::record::JobState;
use mgb_stderr::say;

use super::connect;
use super::select::Which;
use super::show;

/// How long until who waits is told why no job is started.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(1);

/// Wait until jobs have ended: all that wait their turn or run now, unless some are named.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 if all of them ended well, else 1; 3 if the queue's service ended before."
)]
pub struct Wait {
    #[command(flatten)]
    which: Which,
    /// Print what came of them as JSON.
    #[arg(long)]
    json: bool,
    /// Print nothing: the exit code says whether they ended well.
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Wait) -> CommandResult {
    let mut filter = args.which.filter();
    if args.which.is_all() {
        filter.states = vec![JobState::Queued, JobState::Running];
    } else {
        some(&filter)?;
    }
    tell_when_ended(&filter, args.json, args.quiet)
}

/// Waits until these jobs have ended, and prints what came of them.
pub fn tell_when_ended(filter: &JobFilter, as_json: bool, quiet: bool) -> CommandResult {
    if !quiet {
        std::thread::spawn(tell_trouble);
    }
    let listing = until_ended(filter)?;
    if as_json {
        out::print(&show::json(&listing)?);
    } else if !quiet {
        out::print(&show::table(&listing, &show::tasks_of(&listing), false));
    }
    let is_well = |listed: &ListedJob| listed.job.state == JobState::Done;
    let well = listing.jobs.iter().all(is_well);
    Ok(if well { exit::OK } else { exit::FAILED })
}

/// What came of these jobs, once they have ended. A service that ends meanwhile, for its node goes down or a
/// newer MGB takes its place, is started anew.
fn until_ended(filter: &JobFilter) -> Result<Listing, Failure> {
    let first = connect::ask(&Request::Wait(filter.clone()));
    let answer = match first {
        Err(failure) if failure.code == exit::NODE => connect::ask(&Request::Wait(filter.clone()))?,
        answer => answer?,
    };
    connect::told(answer)
}

/// Says on standard error why no job is started, as long as it is so: who waits would not learn it otherwise.
fn tell_trouble() {
    // It comes with any listing; those that run are few, however many wait.
    let few = JobFilter {
        states: vec![JobState::Running],
        ..JobFilter::default()
    };
    let mut told: Option<String> = None;
    loop {
        std::thread::sleep(TROUBLE_INTERVAL);
        // A service that has ended is for who waits to start again.
        let Ok(Some(mut service)) = connect::running() else {
            continue;
        };
        let Ok(Answer::Listing(listing)) = service.ask(&Request::List(few.clone())) else {
            continue;
        };
        if listing.trouble != told {
            match &listing.trouble {
                Some(trouble) => say!("mgb queue: no job is started: {trouble}"),
                None => say!("mgb queue: jobs are started again"),
            }
        }
        told = listing.trouble;
    }
}

/// Refuses a filter that means no job.
pub fn some(filter: &JobFilter) -> Result<(), Failure> {
    if connect::listing(filter.clone())?.jobs.is_empty() {
        let error = anyhow::anyhow!("there is no such job: `mgb queue list --all` shows them");
        return Err(Failure::new(exit::USAGE, error));
    }
    Ok(())
}
