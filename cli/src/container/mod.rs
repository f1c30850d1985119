//! `mgb container`: what container engines read to give a container MGB.

mod cdi;
mod document;
mod kubelet;
mod parts;

use mgb_command::exit::CommandResult;

/// Give containers MGB: podman, docker, apptainer and Kubernetes do so by a file that this writes.
#[derive(Debug, clap::Args)]
#[command(after_help = "docs/CONTAINERS.md has the set-up, and what a container may and may not do.")]
pub struct Args {
    #[command(subcommand)]
    command: ContainerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ContainerCommand {
    Cdi(cdi::Args),
    Kubelet(kubelet::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    match &args.command {
        ContainerCommand::Cdi(args) => cdi::run(args),
        ContainerCommand::Kubelet(args) => kubelet::run(args),
    }
}
