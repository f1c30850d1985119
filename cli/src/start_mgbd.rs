//! `mgb start-mgbd`: the helper through which the other commands start mgbd (see `daemon`).

use mgb_scheduler::{Policy, Queue};

use crate::daemon::{self, Start};
use crate::exit::{self, CommandResult, WithCode};
use crate::machine::Machine;
use crate::prefix::Prefix;

/// Start mgbd in the background, unless it runs. It ends by itself when it has had nothing to do for a while.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How it shares the GPUs: mgb, alg2, alg3, schedgpu[:fifo|mmu|priority-fifo|priority-mmu], sa or cg:N.
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
    /// The order in which tasks are served: in-order, backfill, shortest or largest.
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
