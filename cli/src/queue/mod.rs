//! `mgb queue` and `mgb submit`: jobs that outlive the terminal.

mod change;
mod connect;
mod logs;
mod select;
mod serve;
mod show;
mod submit;
mod suspended;
mod wait;

pub use connect::running;
pub use serve::{WatchJob, watch_job};
pub use show::table;
pub use submit::Args as SubmitArgs;

use clap::{Args, Subcommand};
use mgb_command::exit::CommandResult;

/// Show and change the queue of your jobs, which outlives the terminal.
///
/// `mgb submit` puts jobs into it. A service of yours starts as many at once as the node can use, each as
/// `mgb run` would, and goes on after a crash or a restart of the node as soon as any of these commands is used.
/// Jobs are named by their numbers: 12, 12-15, and of an array 12_3 or 12_3-7 (12 is all its elements). Without a
/// command this is `mgb queue list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mgb submit -- ./train --epochs 3            prints the number of the job
  mgb submit --array 0-99%8 --sh './train --seed $MGB_ARRAY_INDEX'
  mgb submit --after-ok 12 -- ./report
  mgb queue                                   what runs and what waits
  mgb queue logs -f 12                        what job 12 prints
  mgb queue wait 12-15 && ./next              once they have ended well

Exit code: 0 done; 1 a job did not end well, or no job was meant; 2 wrong usage; 3 the queue's service cannot be had.")]
pub struct QueueArgs {
    #[command(subcommand)]
    command: Option<QueueCommand>,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    List(show::List),
    Submit(Box<submit::Args>),
    Wait(wait::Wait),
    Logs(logs::Logs),
    Cancel(change::Cancel),
    Hold(change::Hold),
    Release(change::Release),
    Edit(change::EditArgs),
    Clean(change::Clean),
    Pause(suspended::PauseJobs),
    Resume(suspended::ResumeJobs),
    Places(change::PlacesArgs),
    Stop(change::Stop),
    Serve(serve::Serve),
}

/// Runs the command.
pub fn run(args: &QueueArgs) -> CommandResult {
    match &args.command {
        None => show::list(&show::List::default()),
        Some(QueueCommand::List(args)) => show::list(args),
        Some(QueueCommand::Submit(args)) => submit::run(args),
        Some(QueueCommand::Wait(args)) => wait::run(args),
        Some(QueueCommand::Logs(args)) => logs::run(args),
        Some(QueueCommand::Cancel(args)) => change::cancel(args),
        Some(QueueCommand::Hold(args)) => change::hold(args),
        Some(QueueCommand::Release(args)) => change::release(args),
        Some(QueueCommand::Edit(args)) => change::edit(args),
        Some(QueueCommand::Clean(args)) => change::clean(args),
        Some(QueueCommand::Pause(args)) => suspended::pause(args),
        Some(QueueCommand::Resume(args)) => suspended::resume(args),
        Some(QueueCommand::Places(args)) => change::places(args),
        Some(QueueCommand::Stop(args)) => change::stop(args),
        Some(QueueCommand::Serve(args)) => serve::run(args),
    }
}

/// Runs `mgb submit`.
pub fn submit(args: &SubmitArgs) -> CommandResult {
    submit::run(args)
}
