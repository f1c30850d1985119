//! `mgb cluster`: a node of a Slurm cluster. Slurm places jobs on nodes; on the node mgbd packs them.

mod job;
mod plugin;
mod prolog;

use crate::exit::Outcome;

/// Run this node's GPUs under Slurm: set it up, check it, and what Slurm calls.
#[derive(Debug, clap::Args)]
#[command(after_help = "docs/SLURM.md has the set-up. Exit code: 0, 1 if something is wrong, 3 if no mgbd answers.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Plugin(plugin::Args),
    Prolog(prolog::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Plugin(args) => plugin::run(args),
        Command::Prolog(args) => prolog::run(args),
    }
}
