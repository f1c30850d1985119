//! `mgb start-mgbd`: the helper through which the other commands start mgbd (see `daemon`).

use mgb_probe::socket_path;
use mgb_scheduler::Policy;

use crate::daemon::{self, Start};
use crate::exit::{self, Outcome, WithCode};
use crate::machine::Machine;
use crate::prefix::Prefix;

/// Start mgbd in the background, unless it runs. It ends by itself when it has had nothing to do for a while.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How it shares the GPUs: mgb, alg3, sa or cg:N.
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let start = || {
        let prefix = Prefix::find()?;
        let machine = Machine::find(&prefix)?;
        let start = Start {
            prefix: &prefix,
            machine: &machine,
            policy: args.policy,
            socket: socket_path(),
            environment: Vec::new(),
            options: Vec::new(),
        };
        daemon::start_detached(&start)
    };
    start().code(exit::NODE)?;
    Ok(exit::OK)
}
