//! `mgb cluster`: a node of a Slurm cluster. Slurm places jobs on nodes; on the node mgbd packs them.

mod accounting_spool;
mod check;
mod deliver;
mod epilog;
mod health;
pub mod job;
mod plugin;
mod prolog;
mod setup;
mod watch;

use mgb_command::exit::Outcome;

/// Run this node's GPUs under Slurm: set it up, check it, and what Slurm calls.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "docs/SLURM.md has the set-up. Exit code: 0, 1 if something is wrong, 3 if no mgbd answers."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Setup(setup::Args),
    Check(check::Args),
    Plugin(plugin::Args),
    Prolog(prolog::Args),
    Epilog(epilog::Args),
    Health(health::Args),
    #[command(hide = true)]
    Deliver(deliver::Args),
    #[command(hide = true)]
    Watch(watch::Args),
    #[command(hide = true)]
    Overtime(watch::overtime::Args),
}

/// The command that is meant where mgb is called by one of the names that slurm.conf can have: programs there
/// take no arguments.
pub fn called(name: &str) -> Option<[&'static str; 3]> {
    let command = match name {
        "mgb-task-prolog" => "prolog",
        "mgb-epilog" => "epilog",
        "mgb-health" => "health",
        _ => return None,
    };
    Some(["mgb", "cluster", command])
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Setup(args) => setup::run(args),
        Command::Check(args) => check::run(args),
        Command::Plugin(args) => plugin::run(args),
        Command::Prolog(args) => prolog::run(args),
        Command::Epilog(args) => epilog::run(args),
        Command::Health(args) => health::run(args),
        Command::Deliver(args) => deliver::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Overtime(args) => watch::overtime::run(args),
    }
}
