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

use mgb_command::exit::CommandResult;

/// Run this node's GPUs under Slurm: set it up, check it, and what Slurm calls.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "docs/SLURM.md has the set-up. Exit code: 0, 1 if something is wrong, 3 if no mgbd answers."
)]
pub struct Args {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterCommand {
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
pub fn run(args: &Args) -> CommandResult {
    match &args.command {
        ClusterCommand::Setup(args) => setup::run(args),
        ClusterCommand::Check(args) => check::run(args),
        ClusterCommand::Plugin(args) => plugin::run(args),
        ClusterCommand::Prolog(args) => prolog::run(args),
        ClusterCommand::Epilog(args) => epilog::run(args),
        ClusterCommand::Health(args) => health::run(args),
        ClusterCommand::Deliver(args) => deliver::run(args),
        ClusterCommand::Watch(args) => watch::run(args),
        ClusterCommand::Overtime(args) => watch::overtime::run(args),
    }
}
