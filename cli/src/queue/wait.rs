//! `mgb queue wait`.

use clap::Args;
use mgb_command::exit::{self, CommandResult, Failure};
use mgb_command::out;
use mgb_queue::protocol::{JobFilter, Request};
use mgb_queue::record::JobState;

use super::connect;
use super::select::Which;
use super::show;

/// Wait until jobs have ended: all that are in the queue now, unless some are named.
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
    let listing = until_ended(&filter)?;
    if args.json {
        out::print(&show::json(&listing)?);
    } else if !args.quiet {
        out::print(&show::table(&listing, false));
    }
    let well = listing
        .jobs
        .iter()
        .all(|listed| listed.job.state == JobState::Done);
    Ok(if well { exit::OK } else { exit::FAILED })
}

/// What came of these jobs, once they have ended. A service that ends meanwhile, for its node goes down or a
/// newer MGB takes its place, is started anew.
pub fn until_ended(filter: &JobFilter) -> Result<mgb_queue::protocol::Listing, Failure> {
    let first = connect::ask(&Request::Wait(filter.clone()));
    let answer = match first {
        Err(failure) if failure.code == exit::NODE => connect::ask(&Request::Wait(filter.clone()))?,
        answer => answer?,
    };
    connect::told(answer)
}

/// Refuses a filter that means no job.
pub fn some(filter: &JobFilter) -> Result<(), Failure> {
    if connect::listing(filter.clone())?.jobs.is_empty() {
        let error = anyhow::anyhow!("there is no such job: `mgb queue list --all` shows them");
        return Err(Failure::new(exit::USAGE, error));
    }
    Ok(())
}
