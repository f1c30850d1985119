//! `mgb start-mgbd`: the helper through which the other commands start mgbd (see `daemon`).

use mgb_command::daemon::{self, Start};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::machine::Machine;
use mgb_command::prefix::Prefix;
use mgb_interface::{Policy, Queue};

/// Start mgbd in the background, unless it runs. It ends by itself when it has had nothing to do for a while.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(
        help = concat!("How it shares the GPUs: ", mgb_interface::policy_names!()),
        long,
        value_name = "POLICY"
    )]
    policy: Option<Policy>,
    /// The order in which tasks are served: in-order, backfill, shortest, largest, edf or laxity.
    #[arg(long, value_name = "ORDER")]
    queue: Option<Queue>,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let start = || {
        let prefix = Prefix::find()?;
        let machine = Machine::find(&prefix)?;
        let start = Start::shared(&prefix, &machine, args.policy, args.queue);
        daemon::start_detached(&start)
    };
    start().code(exit::NODE)?;
    Ok(exit::OK)
}
