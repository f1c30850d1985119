//! `mgb status`: the GPUs, the tasks that hold room on them, and those that wait.

mod cluster;
mod columns;
mod gpus;
mod ordered;
mod queue;
mod render;
mod tasks;

use columns::Width;
pub use queue::{reason, why};
pub use tasks::{latency_cells, state_and_notes as task_state};

use mgb_command::daemon;
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_probe::{Client, socket_path};

/// Show the GPUs, the tasks that hold room on them, and those that wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0, or 3 if no mgbd answers.")]
pub struct Args {
    /// Print mgbd's view of the node as JSON.
    #[arg(long)]
    json: bool,
    /// Show all columns: headroom, contexts, overhead, warps, peaks, shares, classes, deadlines and notes too.
    #[arg(long, conflicts_with_all = ["json", "cluster"])]
    wide: bool,
    /// Show the nodes of this Slurm cluster: what each has last told Slurm of its GPUs.
    #[arg(long)]
    cluster: bool,
}

/// Reads and prints what Slurm says of nodes.
#[cfg(fuzzing)]
pub fn read_cluster(text: &str) {
    cluster::text(&cluster::read(text));
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    if args.cluster {
        let nodes = cluster::nodes().code(exit::NODE)?;
        out::print(&if args.json {
            out::json(&nodes).code(exit::NODE)?
        } else {
            cluster::text(&nodes)
        });
        return Ok(exit::OK);
    }
    let client = Client::observe(&socket_path())
        .map_err(daemon::way_out)
        .code(exit::NODE)?;
    let view = client.status().code(exit::NODE)?;
    if args.json {
        // The view is a versioned document of mgbd's own; what else would a script want?
        out::print(&out::json(&view).code(exit::NODE)?);
    } else {
        let width = if args.wide { Width::Wide } else { Width::Narrow };
        out::print(&render::text(&view, width));
    }
    Ok(exit::OK)
}
