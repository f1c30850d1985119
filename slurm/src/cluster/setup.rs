//! `mgb cluster setup`: the lines of Slurm's files for this node, from what its mgbd says of the GPUs.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::prefix::Prefix;
use mgb_command::{daemon, out};
use mgb_probe::{Client, NODE_SOCKET};

use crate::tools;
use crate::tools::counts::NodeCounts;
use crate::tools::{MEMORY, SHARE, WHOLE};

/// Print the lines of slurm.conf and plugstack.conf for this node.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb cluster setup                               all lines, with what they are for
  mgb cluster setup --gres                        what belongs at the end of the node's line in slurm.conf

Exit code: 0, or 3 if no mgbd answers.")]
pub struct Args {
    /// Print the `Gres=` for the node's line in slurm.conf alone.
    #[arg(long)]
    gres: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let client = Client::observe(Path::new(NODE_SOCKET)).map_err(daemon::way_out);
    let client = client
        .context("the node's mgbd has to run first: docs/SERVICE.md")
        .code(exit::NODE)?;
    let gres = format!("Gres={}", NodeCounts::of(&client.hello().gpus));
    if args.gres {
        out::print(&format!("{gres}\n"));
    } else {
        let prefix = Prefix::find().code(exit::NODE)?;
        let hardware = hardware().code(exit::NODE)?;
        out::print(&all(&format!("{hardware} {gres}"), prefix.path()));
    }
    Ok(exit::OK)
}

/// What slurmd finds of the node: `NodeName=n1 CPUs=…`.
fn hardware() -> anyhow::Result<String> {
    let said = tools::run("slurmd", &["-C"])?;
    let line = said.lines().find(|line| line.starts_with("NodeName="));
    line.map(|line| line.trim().to_owned())
        .ok_or_else(|| anyhow!("slurmd -C says no NodeName: {said}"))
}

fn all(line: &str, prefix: &Path) -> String {
    let prefix = prefix.display();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\
# slurm.conf, the same on all machines. Names that are there already stay: GresTypes=gpu,{MEMORY},{SHARE},{WHOLE}
GresTypes={MEMORY},{SHARE},{WHOLE}
AccountingStorageTRES=gres/{MEMORY},gres/{SHARE}
HealthCheckProgram={prefix}/bin/mgb-health
HealthCheckInterval=60
{line}

# plugstack.conf, on the nodes. optional: where the plugin is missing, jobs run without MGB
optional /etc/slurm/mgb_spank.so prefix={prefix}

# Without the plugin, in slurm.conf instead of it:
# TaskProlog={prefix}/bin/mgb-task-prolog
# Epilog={prefix}/bin/mgb-epilog
"
    );
    text
}

#[cfg(test)]
mod tests {
    use mgb_probe::Gpu;

    use super::*;

    #[test]
    fn half_as_much_memory_again_is_counted() {
        let gpu = |mib: u64| Gpu {
            index: 0,
            node_index: 0,
            uuid: String::new(),
            name: String::new(),
            total_bytes: mib << 20,
            usable_bytes: mib << 20,
            context_bytes: 0,
            max_warps: 1,
            multiprocessors: mgb_probe::Multiprocessors {
                count: 1,
                blocks: 1,
                warps: 1,
                registers: 1,
                partitions: 1,
                shared_bytes: 1,
                shared_reserved: 0,
                shared_unit: 1,
            },
        };
        let gres = NodeCounts::of(&[gpu(64), gpu(256)]);
        assert_eq!(
            gres.to_string(),
            "mgb_mem:480,mgb_share:200,mgb_gpu:no_consume:256"
        );
        let line = format!("NodeName=n1 CPUs=2 Gres={gres}");
        let text = all(&line, Path::new("/opt/mgb"));
        assert!(text.contains("\nNodeName=n1 CPUs=2 Gres="), "{text}");
        assert!(
            text.contains("\noptional /etc/slurm/mgb_spank.so prefix=/opt/mgb\n"),
            "{text}"
        );
    }
}
